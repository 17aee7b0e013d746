import { Context, Effect, Layer, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { NewApiKey } from "../api/ApiKeys.ts"
import { Client, type ClientCalls } from "../client/Client.ts"
import { ApiKeys } from "../server/identity/ApiKeys.ts"
import { EmbeddedPostgres } from "../server/store/EmbeddedPostgres.ts"
import { generateMasterKey } from "../server/secrets/SecretBox.ts"
import * as Server from "../server/Server.ts"
import * as Settings from "../server/config/Settings.ts"

/** How a service for tests differs from one that starts with no configuration. */
export interface TestOptions {
  /** An empty database to use, such as a clone of a template. Default: an embedded PostgreSQL of its own, thrown away after. */
  readonly databaseUrl?: Redacted.Redacted
  /** Configuration by the names of the environment variables. */
  readonly environment?: Settings.Environment
}

/** The organization that a test's keys belong to where it names none. */
const ORGANIZATION = "test"

/**
 * Countersign for tests: the whole service in this process, over a migrated store that is thrown away, listening on a free port of
 * loopback. Receivers on loopback over plain http are let through, and no key is held to a rate.
 *
 * ```ts
 * layer(Countersign.layer(), { excludeTestServices: true })("refunds", (it) => {
 *   it.effect("ask a person", () =>
 *     Effect.gen(function* () {
 *       const countersign = yield* Countersign
 *       const { sessions } = yield* countersign.client({ preset: "runtime" })
 *       const { session_id } = yield* sessions.create({})
 *       …
 * ```
 */
export class Countersign extends Context.Service<
  Countersign,
  {
    /** Where the service listens: `http://127.0.0.1:PORT`. */
    readonly url: string
    /** A new key, by default an admin's, by default of the organization `test`. */
    readonly key: (input?: Partial<NewApiKey>, organization?: string) => Effect.Effect<Redacted.Redacted>
    /** A typed client with a new key. */
    readonly client: (input?: Partial<NewApiKey>, organization?: string) => Effect.Effect<ClientCalls>
    /** A typed client with a key of one's own. */
    readonly clientWith: (key: Redacted.Redacted) => Effect.Effect<ClientCalls>
  }
>()("countersign/testing/Countersign") {
  /** Provides the service's own layers too, so that a test can reach behind the API. Build it with the real clock. */
  static readonly layer = (options: TestOptions = {}) =>
    Layer.effect(
      Countersign,
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const { address } = yield* HttpServer.HttpServer
        const url = `http://127.0.0.1:${"port" in address ? address.port : 0}`
        const key = (input?: Partial<NewApiKey>, organization = ORGANIZATION) =>
          keys
            .createFor(organization, {
              name: input?.preset ?? "test",
              ...(input?.scopes === undefined ? { preset: "admin" } : {}),
              ...input
            })
            .pipe(
              Effect.map(({ secret }) => secret),
              Effect.orDie
            )
        const clientWith = (secret: Redacted.Redacted) =>
          Effect.scoped(Effect.map(Layer.build(Client.layer({ url, key: secret })), Context.get(Client)))
        return Countersign.of({
          url,
          key,
          clientWith,
          client: (input, organization) => Effect.flatMap(key(input, organization), clientWith)
        })
      })
    ).pipe(Layer.provideMerge(Layer.unwrap(Effect.map(settings(options), Server.layer))))
}

/** Settings of a service that only this process can reach, and that may send to loopback. */
const settings = Effect.fnUntraced(function* (options: TestOptions) {
  const url = options.databaseUrl ?? (yield* throwAwayStore)
  const decoded = Settings.decode(
    {
      PORT: "0",
      DATABASE_URL: Redacted.value(url),
      COUNTERSIGN_MASTER_KEY: Redacted.value(yield* generateMasterKey),
      COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
      COUNTERSIGN_EGRESS_HTTP: "true",
      COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_STOP_SECONDS: "1",
      ...options.environment
    },
    { cwd: tmpdir(), uid: undefined }
  )
  return (yield* Effect.orDie(Effect.fromResult(decoded))).settings
})

/** The URL of an embedded PostgreSQL that ends, with its files, with the scope. */
const throwAwayStore = Effect.gen(function* () {
  const dataDir = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-testing-"))),
    (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
  )
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return Context.get(store, EmbeddedPostgres).url
})
