import { Effect, type Layer, Option } from "effect"
import type { Client } from "../client/Client.ts"
import { type FailedWithCode, toCommandFailure } from "./exitCode.ts"
import { findSecret, type GivenSecret, SecretMissing, type SecretSources } from "./secretFlag.ts"
import { findServiceUrl, makeClientLayer } from "./serviceClient.ts"

/** The service that a command calls. */
export type Connection = GivenSecret & { readonly url: Option.Option<string> }

/** Runs with the client of the service. Every failure exits with 2, because 1 is a result. */
export const useService = <A, E, R>(
  source: SecretSources,
  connection: Connection,
  use: (url: string) => Effect.Effect<A, E, R>
): Effect.Effect<A, FailedWithCode, Exclude<R, Client>> =>
  Effect.gen(function* () {
    const key = yield* findSecret(source, connection)
    if (Option.isNone(key)) {
      return yield* new SecretMissing({
        message: "the API key is missing: set COUNTERSIGN_KEY, or use --key-file"
      })
    }
    const url = yield* findServiceUrl(connection.url)
    const layer: Layer.Layer<Client> = yield* makeClientLayer({ url, key: key.value })
    return yield* Effect.provide(use(url), layer)
  }).pipe(Effect.mapError(toCommandFailure))
