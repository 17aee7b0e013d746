/** The form of a response's id and of a model's name. */
const NAME = /^[\w.:/@+-]{1,200}$/

/** The form of a finish reason. */
const REASON = /^[a-z][a-z_]{0,31}$/

/** A name in a response, or null if it has another form: a model server could send any text. */
export const toName = (value: unknown): string | null =>
  typeof value === "string" && NAME.test(value) ? value : null

/** A finish reason, or null if it has another form. */
export const toReason = (value: string | null | undefined): string | null =>
  typeof value === "string" && REASON.test(value) ? value : null
