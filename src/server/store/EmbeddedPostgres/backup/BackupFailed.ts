import { Effect, Schema } from "effect"
import { describeSystemCall } from "../EmbeddedPostgresFailed.ts"

/** A backup or a restore failed. `phrase` is one line for the operator: what happened and what to do. */
export class BackupFailed extends Schema.TaggedError<BackupFailed>()("BackupFailed", {
  phrase: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return this.phrase
  }
}

/**
 * Runs operations on files, which stop if the signal is aborted. A failure is described to the operator; a `BackupFailed` that they throw
 * is passed on.
 */
export const tryFiles = <A>(
  doing: string,
  run: (signal: AbortSignal) => Promise<A>
): Effect.Effect<A, BackupFailed> =>
  Effect.tryPromise({
    try: run,
    catch: (cause) =>
      cause instanceof BackupFailed
        ? cause
        : new BackupFailed({ phrase: `${doing}: ${describeSystemCall(cause)}`, cause })
  })
