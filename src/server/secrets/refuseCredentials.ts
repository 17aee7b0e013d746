import { Effect, type Schema } from "effect"
import { InvalidRequest } from "../../api/Problems.ts"
import { collectTexts, containsCredential, type KnownValues } from "../../domain/redaction/Redaction.ts"

/** Members with descriptions and reasons: lists, logs and emails show them, and nothing redacts them. */
const DESCRIPTIVE: ReadonlySet<string> = new Set([
  "name",
  "reason",
  "summary_template",
  "description",
  "metadata"
])

/** A descriptive member and its place. */
interface Described {
  readonly pointer: string
  readonly value: Schema.Json
}

/** Fails if a descriptive member contains a known credential. */
export const refuseCredentials = (
  members: ReadonlyArray<Described>,
  known: KnownValues
): Effect.Effect<void, InvalidRequest> => {
  const errors = members
    .filter(({ value }) => [...collectTexts(value)].some((text) => containsCredential(text, known)))
    .map(({ pointer }) => ({ pointer, detail: "Contains a credential." }))
  return errors.length === 0
    ? Effect.void
    : Effect.fail(
        new InvalidRequest({
          detail:
            "A name, reason, template, description or metadata contains a credential. They are shown to people and not redacted: leave it out.",
          errors
        })
      )
}

/** The descriptive members of an object and of the objects in its lists, with their places. */
export const describedIn = (body: Schema.Json, at = "#"): ReadonlyArray<Described> => {
  if (typeof body !== "object" || body === null) return []
  return Object.entries(body).flatMap(([name, value]: [string, Schema.Json]) => {
    const pointer = `${at}/${name}`
    if (DESCRIPTIVE.has(name)) return [{ pointer, value }]
    return at === "#" && Array.isArray(value)
      ? value.flatMap((element: Schema.Json, index) => describedIn(element, `${pointer}/${index}`))
      : []
  })
}
