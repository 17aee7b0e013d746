import { Deferred, Effect } from "effect"
import type * as oauth from "oauth4webapi"

/** How long the provider's metadata is used before it is read again. */
const METADATA_LIFETIME_MILLIS = 3_600_000

/** How long older metadata is used while the provider cannot be reached. */
const STALE_METADATA_MILLIS = 24 * 3_600_000

/** Minimum pause between two attempts. */
const RETRY_MILLIS = 5_000

/** The provider's metadata and the time of reading it. */
interface Metadata {
  readonly server: oauth.AuthorizationServer
  readonly readAt: number
}

/** Makes the look-up of the provider's metadata: single-flight, and no older than an hour unless the provider cannot be reached. */
export const makeProviderMetadata = <E>({
  now,
  read
}: {
  /** Reads the metadata, without a cache. */
  readonly read: Effect.Effect<oauth.AuthorizationServer, E>
  /** Monotonic milliseconds. */
  readonly now: () => number
}): Effect.Effect<oauth.AuthorizationServer, E> => {
  let metadata: Metadata | undefined
  /** The last failure, which is the result until the next attempt. */
  let failed: { readonly failure: E; readonly retryAt: number } | undefined
  let inFlight: Deferred.Deferred<Metadata, E> | undefined

  const readMetadata = read.pipe(
    Effect.map((server) => {
      metadata = { server, readAt: now() }
      return metadata
    }),
    Effect.tapError((failure) =>
      Effect.sync(() => {
        failed = { failure, retryAt: now() + RETRY_MILLIS }
      })
    )
  )

  const awaitServer = (reading: Deferred.Deferred<Metadata, E>, stale: Metadata | undefined) =>
    Deferred.await(reading).pipe(
      Effect.map(({ server }) => server),
      Effect.catch((failure) => (stale === undefined ? Effect.fail(failure) : Effect.succeed(stale.server)))
    )

  return Effect.gen(function* () {
    const age = metadata === undefined ? Number.POSITIVE_INFINITY : now() - metadata.readAt
    if (metadata !== undefined && age < METADATA_LIFETIME_MILLIS) return metadata.server
    const stale = metadata !== undefined && age < STALE_METADATA_MILLIS ? metadata : undefined
    if (failed !== undefined && now() < failed.retryAt) {
      return stale === undefined ? yield* Effect.fail(failed.failure) : stale.server
    }
    if (inFlight === undefined) {
      const started = Deferred.makeUnsafe<Metadata, E>()
      inFlight = started
      yield* readMetadata.pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            inFlight = undefined
            Deferred.doneUnsafe(started, exit)
          })
        ),
        Effect.forkDetach
      )
      return yield* awaitServer(started, stale)
    }
    return yield* awaitServer(inFlight, stale)
  })
}
