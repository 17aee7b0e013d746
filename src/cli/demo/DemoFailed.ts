import { Effect, Schema } from "effect"
import { oneLine, rootCause } from "../errorMessage.ts"
import { describeServiceFailure } from "../serviceFailure.ts"

/** The demo failed; the message has the place and the reason in one line. */
export class DemoFailed extends Schema.TaggedError<DemoFailed>()("DemoFailed", {
  message: Schema.String
}) {}

/** Adds the current operation to a failure. */
export const during =
  (doing: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, DemoFailed, R> =>
    Effect.mapError(self, (error) =>
      error instanceof DemoFailed ? error : new DemoFailed({ message: `${doing} failed: ${reasonOf(error)}` })
    )

const reasonOf = (error: unknown): string => {
  const failedService = describeServiceFailure(error)
  if (failedService !== undefined) return failedService
  const root = rootCause(error)
  const code = error instanceof Error && "code" in error ? `${String(error.code)}: ` : ""
  const message = error instanceof Error && error !== root ? `${error.message}: ` : ""
  return oneLine(`${code}${message}${root.message}`)
}
