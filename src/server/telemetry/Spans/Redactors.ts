import { Cause, Effect, type Schema } from "effect"
import { SqlError } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import {
  type KnownValues,
  redact,
  REDACTED,
  redactText,
  collectTexts
} from "../../../domain/redaction/Redaction.ts"
import { MAX_CONTENT_CHARACTERS } from "../../../domain/telemetry/SpanConventions.ts"
import { isDatabaseUnavailable } from "../../store/Database/databaseErrors.ts"
import type { KnownSecrets } from "../../secrets/KnownSecrets.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { TOO_LONG } from "./Content.ts"

/** Removes secrets from what is exported, with pauses for others between its texts. */
export type Redactor = (value: Schema.Json) => Effect.Effect<Schema.Json>

/** How long an organization whose secrets cannot be opened is exported without content, until they are tried again. */
const UNREADABLE_MILLIS = 60_000

/** Such organizations that are remembered. */
const MAX_UNREADABLE = 1_000

/**
 * What goes out of an input, an answer, arguments or a result: the same redaction as of a correction. What is longer than is exported is
 * not searched, so nothing of it goes out.
 */
const redactContent = Effect.fnUntraced(function* (
  value: Schema.Json,
  known: KnownValues,
  pause: Effect.Effect<void>
) {
  if (JSON.stringify(value).length > MAX_CONTENT_CHARACTERS) return TOO_LONG
  const cleaned = new Map<string, string>()
  for (const text of collectTexts(value)) {
    cleaned.set(text, redactText(text, known))
    yield* pause
  }
  const redaction = redact(value, known, "#", cleaned)
  return redaction._tag === "Redaction" ? redaction.value : REDACTED
})

/** The store is away, or overrun: the same will succeed later. */
const isTransient = (cause: Cause.Cause<unknown>): boolean => {
  const fault = Cause.squash(cause)
  return Cause.hasInterrupts(cause) || (SqlError.isSqlError(fault) && isDatabaseUnavailable(fault))
}

/**
 * How the content of organizations goes out. One whose own secrets cannot be read, and so not be looked for, has none: its spans go
 * without, and those of others with it. Dies only where the store is away. `now`: milliseconds on the monotonic clock; `pause`: what is
 * done between two texts.
 */
export const makeRedactors = (
  secrets: KnownSecrets["Service"],
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
            Effect.logError("Spans go out without content: what must not be in it cannot be read", cause, {
              org_id
            }),
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
