import { Array as Arr, DateTime, Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { KeyId } from "../../../domain/Ids.ts"
import { onShutdown, runWorker, startWorkers } from "../../concurrency/Worker.ts"
import { textArray, timestamptzArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { KeyRef } from "../KeyRef.ts"

/** Pause between two writes, and minimum time between two stored uses of a key. */
const WRITE_INTERVAL = Duration.minutes(1)

/**
 * Maximum number of keys whose use is recorded between two writes; the use of further keys is dropped. Ten times the
 * size of the verified-key cache.
 */
const MAX_KEYS = 100_000

/** Maximum number of keys per statement. */
const KEYS_PER_STATEMENT = 1_000

/** Longest time that the last write may delay the shutdown. */
const SHUTDOWN_MILLIS = 1_000

interface KeyUse extends KeyRef {
  /** Epoch milliseconds of the last use. */
  usedAt: number
}

/**
 * Records the last use of each key in memory and writes it once a minute: a key in use costs one row update per minute,
 * however many requests and replicas use it. So the stored time is up to two minutes old, and a killed process loses
 * its last minute.
 */
export const makeKeyUses = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"]
) {
  let recorded = new Map<KeyId, KeyUse>()

  const restore = (uses: ReadonlyArray<KeyUse>): void => {
    for (const use of uses) if (!recorded.has(use.key_id)) recorded.set(use.key_id, use)
  }

  const write = Effect.suspend(() => {
    const uses = [...recorded.values()]
    recorded = new Map()
    return Effect.forEach(
      Arr.chunksOf(uses, KEYS_PER_STATEMENT),
      (chunk) =>
        // In the order of the primary key, so that two replicas do not deadlock. Retention may have deleted a key since it was used.
        sql`
          INSERT INTO api_key_uses (org_id, key_id, last_used_at)
          SELECT org_id, key_id, used_at
          FROM unnest(
            ${textArray(chunk.map(({ org_id }) => org_id))}::text[],
            ${textArray(chunk.map(({ key_id }) => key_id))}::text[],
            ${timestamptzArray(chunk.map(({ usedAt }) => DateTime.makeUnsafe(usedAt)))}::timestamptz[]
          ) AS used (org_id, key_id, used_at)
            JOIN api_keys USING (org_id, key_id)
          ORDER BY org_id, key_id
          ON CONFLICT (org_id, key_id) DO UPDATE
          SET last_used_at = excluded.last_used_at
          WHERE excluded.last_used_at - api_key_uses.last_used_at >= ${sql.literal(`interval '${Duration.toMillis(WRITE_INTERVAL)} ms'`)}
        `,
      { discard: true }
    ).pipe(
      Effect.onError(() => Effect.sync(() => restore(uses))),
      Effect.as(uses.length)
    )
  })

  yield* onShutdown(
    Effect.ignore(Effect.timeout(write, SHUTDOWN_MILLIS), {
      log: "Warn",
      message: "Could not store when API keys were last used"
    })
  )
  yield* startWorkers([
    runWorker({
      name: "key_uses",
      runOnce: Effect.map(write, (keys) => ({ counts: { keys } })),
      every: WRITE_INTERVAL,
      retryAfter: WRITE_INTERVAL,
      firstRun: "after_pause"
    })
  ])

  return {
    record: ({ key_id, org_id }: KeyRef): void => {
      const known = recorded.get(key_id)
      if (known !== undefined) known.usedAt = clock.millisUnsafe()
      else if (recorded.size < MAX_KEYS) {
        recorded.set(key_id, { org_id, key_id, usedAt: clock.millisUnsafe() })
      }
    },
    write: Effect.orDie(write)
  }
})

/** Records the uses of keys. */
export type KeyUses = Effect.Success<ReturnType<typeof makeKeyUses>>
