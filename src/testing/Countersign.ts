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

/** How a test service differs from one without configuration. */
export interface TestOptions {
  /** URL of an empty database, such as a clone of a template. Default: a temporary embedded PostgreSQL. */
  readonly databaseUrl?: Redacted.Redacted
  /** Additional environment variables. */
  readonly environment?: Settings.Environment
}

/** The default organization of a test's keys. */
const ORGANIZATION = "test"

/**
 * Countersign for tests: the whole service in this process with a temporary, migrated database, listening on a free loopback port. It may
 * send to loopback addresses over plain http, and has no rate limits.
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
    /** The base URL: `http://127.0.0.1:PORT`. */
    readonly url: string
    /** Creates a key, by default with the preset `admin` in the organization `test`. */
    readonly key: (input?: Partial<NewApiKey>, organization?: string) => Effect.Effect<Redacted.Redacted>
    /** Creates a key and returns a typed client that uses it. */
    readonly client: (input?: Partial<NewApiKey>, organization?: string) => Effect.Effect<ClientCalls>
    /** Returns a typed client for an existing key. */
    readonly clientWith: (key: Redacted.Redacted) => Effect.Effect<ClientCalls>
  }
>()("countersign/testing/Countersign") {
  /** Provides the service's own layers too, so that a test can use them without the API. Build it with the real clock. */
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

/** The settings of a service that only this machine can reach and that may send to loopback. */
const settings = Effect.fnUntraced(function* (options: TestOptions) {
  const url = options.databaseUrl ?? (yield* temporaryDatabase)
  const decoded = Settings.decode(
    {
      PORT: "0",
      DATABASE_URL: Redacted.value(url),
      COUNTERSIGN_MASTER_KEY: Redacted.value(yield* generateMasterKey),
      COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
      COUNTERSIGN_EGRESS_HTTP: "true",
      COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_STOP_SECONDS: "1",
      ...options.environment
    },
    { cwd: tmpdir(), uid: undefined }
  )
  return (yield* Effect.orDie(Effect.fromResult(decoded))).settings
})

/** Starts an embedded PostgreSQL that is stopped and deleted with the scope; returns its URL. */
const temporaryDatabase = Effect.gen(function* () {
  const dataDir = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "countersign-testing-"))),
    (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
  )
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return Context.get(store, EmbeddedPostgres).url
})
