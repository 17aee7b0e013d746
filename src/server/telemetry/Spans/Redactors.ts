import { Cause, Effect, type Schema } from "effect"
import { SqlError } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type KnownValues, redact, REDACTED } from "../../../domain/redaction/Redaction.ts"
import { MAX_CONTENT_CHARACTERS } from "../../../domain/telemetry/SpanConventions.ts"
import { isDatabaseUnavailable } from "../../store/databaseErrors.ts"
import type { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import { redactTexts } from "../../secrets/redactTexts.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { TOO_LONG } from "./Content.ts"

/** Redacts one value, yielding to other fibers every few milliseconds. */
export type Redactor = (value: Schema.Json) => Effect.Effect<Schema.Json>

/**
 * How long an organization whose secrets could not be decrypted is exported without content before another attempt, in
 * milliseconds.
 */
const UNREADABLE_MILLIS = 60_000

/** Limit on remembered organizations of that kind. */
const MAX_UNREADABLE = 1_000

/**
 * Redacts an input, answer, arguments or result in the same way as a correction. A value that is too long to export is
 * replaced without a search for secrets.
 */
const redactContent = Effect.fnUntraced(function* (
  value: Schema.Json,
  known: KnownValues,
  pause: Effect.Effect<void>
) {
  if (JSON.stringify(value).length > MAX_CONTENT_CHARACTERS) return TOO_LONG
  const redactedTexts = yield* redactTexts(value, known, pause)
  yield* pause
  const redaction = redact(value, known, "#", redactedTexts)
  return redaction._tag === "Redaction" ? redaction.value : REDACTED
})

/** The database is unavailable or overloaded, so a retry may succeed. */
const isTransient = (cause: Cause.Cause<unknown>): boolean => {
  const fault = Cause.squash(cause)
  return Cause.hasInterrupts(cause) || (SqlError.isSqlError(fault) && isDatabaseUnavailable(fault))
}

/**
 * Redacts the content of organizations. If an organization's own secrets cannot be decrypted, they cannot be found in
 * its content either, so its spans are exported without content and other organizations are not affected. Fails only
 * while the database is unavailable. `now`: milliseconds on the monotonic clock; `pause`: runs every few milliseconds.
 */
export const makeRedactors = (
  secrets: Pick<KnownSecrets["Service"], "forOrg">,
  now: () => number,
  pause: Effect.Effect<void>
) => {
  const unreadable = new LruCache<number>({ entries: MAX_UNREADABLE, weight: MAX_UNREADABLE })

  const redactorOf = (org_id: OrgId): Effect.Effect<Redactor | null> =>
    Effect.suspend(() => {
      if (now() < (unreadable.get(org_id) ?? 0)) return Effect.succeed(null)
      return secrets.forOrg(org_id).pipe(
        Effect.map(
          (known): Redactor =>
            (value) =>
              redactContent(value, known, pause)
        ),
        Effect.catchCause((cause) => {
          if (isTransient(cause)) return Effect.failCause(cause)
          unreadable.set(org_id, now() + UNREADABLE_MILLIS, 1)
          return Effect.as(
            Effect.logError(
              "Exporting spans without content: secrets for redaction could not be decrypted",
              cause,
              {
                org_id
              }
            ),
            null
          )
        })
      )
    })

  return Effect.fnUntraced(function* (org_ids: ReadonlySet<OrgId>) {
    const redactors = new Map<OrgId, Redactor | null>()
    for (const org_id of org_ids) redactors.set(org_id, yield* redactorOf(org_id))
    return redactors
  })
}
