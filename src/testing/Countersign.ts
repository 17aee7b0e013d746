import { Clock, Context, type Duration, Effect, Fiber, Layer, Redacted, Scope } from "effect"
import { HttpServer } from "effect/http"
import { createHash, randomUUID } from "node:crypto"
import { tmpdir } from "node:os"
import type { NewApiKey } from "../api/ApiKeys.ts"
import { Client, type ClientCalls } from "../client/Client.ts"
import type { ApprovalId } from "../domain/Ids.ts"
import { processClock } from "../server/concurrency/processClock.ts"
import { ApiKeys } from "../server/identity/ApiKeys.ts"
import { StoreClock } from "../server/store/StoreClock.ts"
import { EmbeddedPostgres } from "../server/store/EmbeddedPostgres.ts"
import * as Server from "../server/Server.ts"
import * as Settings from "../server/config/Settings.ts"
import { explainSlowStart } from "./explainSlowStart.ts"
import type { ApprovalPattern, ScriptedPerson } from "./people.ts"
import { type ReceiverScript, succeeds, type TestReceiver } from "./receivers.ts"
import { makeAdvance } from "./timeTravel/makeAdvance.ts"
import { makePeople } from "./timeTravel/makePeople.ts"
import { makeReceiver } from "./timeTravel/makeReceiver.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { withProcessClock } from "./withProcessClock.ts"

/** How a test service differs from one without configuration. */
export interface TestOptions<Replaced extends Server.Edge = never, E = never, R = never> {
  /** URL of an empty database, such as a clone of a template. Default: a temporary embedded PostgreSQL. */
  readonly databaseUrl?: Redacted.Redacted
  /** Settings, by the names of their variables. */
  readonly environment?: Settings.ServiceVariables
  /**
   * Services of the edge in place of the real ones: `Egress`, `ProviderEgress`, `MailTransport`, `Providers`, `StoreClock`. A layer that
   * provides any other service does not compile, because the service would not use it.
   */
  readonly replace?: Layer.Layer<Replaced, E, R>
}

/** The default organization of a test's keys. */
const ORGANIZATION = "test"

/**
 * Countersign for tests: the whole service in this process with a temporary, migrated database, listening on a free loopback port. It may
 * send to loopback addresses over plain http, and has no rate limits.
 *
 * ```ts
 * layer(Countersign.layer(), { timeout: "60 seconds" })("refunds", (it) => {
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
    /**
     * Moves the service's time ahead, under a `TestClock`: `advance("30 days")`. It stops wherever something is due, and goes on when that is
     * done: approvals are escalated and expire, people decide, deliveries are retried. Retention runs at the end.
     */
    readonly advance: (duration: Duration.Input) => Effect.Effect<void>
    /** Adds people who decide approvals by themselves: `people(approves({ tool: "payments.*" }, { after: "2 hours" }))`. */
    readonly people: (...people: ReadonlyArray<ScriptedPerson>) => Effect.Effect<void>
    /** Waits until a matching approval is pending, and returns its id. By default in the organization `test`. */
    readonly awaitPending: (pattern?: ApprovalPattern, organization?: string) => Effect.Effect<ApprovalId>
    /** Creates a webhook endpoint with a receiver on this machine, which lives as long as the service: `receiver(fails(3))`. */
    readonly receiver: (script?: ReceiverScript, organization?: string) => Effect.Effect<TestReceiver>
  }
>()("countersign/testing/Countersign") {
  /**
   * Provides the service's own layers too, so that a test can use them without the API. Under a `TestClock`, the service's time is that
   * clock's, and the clients that it creates wait by the process's clock.
   */
  static readonly layer = <Replaced extends Server.Edge = never, E = never, R = never>(
    options: TestOptions<Replaced, E, R> = {}
  ) => {
    const replacement: Layer.Layer<never, E, R> = options.replace ?? Layer.empty
    return layerService(options).pipe(Layer.provide(replacement))
  }
}

const layerService = (options: Pick<TestOptions, "databaseUrl" | "environment">) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const slowStart = yield* explainSlowStart()
      const decoded = yield* Effect.provideService(settings(options), Clock.Clock, processClock)
      return Layer.effectDiscard(Fiber.interrupt(slowStart)).pipe(
        Layer.provideMerge(layerCountersign()),
        Layer.provideMerge(Server.layer(decoded))
      )
    })
  )

const layerCountersign = () =>
  Layer.effect(
    Countersign,
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const scope = yield* Effect.scope
      const { millisUnsafe } = yield* StoreClock
      const isProcessClock = (yield* Clock.Clock) === processClock
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
            Effect.orDie,
            Effect.provideService(Clock.Clock, processClock)
          )
      const clientWith = (secret: Redacted.Redacted) =>
        Effect.scoped(
          Effect.map(Layer.build(Client.layer({ url, key: secret })), (context) => {
            const client = Context.get(context, Client)
            return isProcessClock ? client : withProcessClock(client)
          })
        )
      const client: Countersign["Service"]["client"] = (input, organization) =>
        Effect.flatMap(key(input, organization), clientWith)
      const people = yield* makePeople(ORGANIZATION, client)
      const advance = yield* makeAdvance(people)
      return Countersign.of({
        url,
        key,
        clientWith,
        client,
        advance,
        people: (...scripts) => Effect.provideService(people.add(scripts), Clock.Clock, processClock),
        awaitPending: (pattern = {}, organization = ORGANIZATION) =>
          Effect.provideService(people.awaitPending(pattern, organization), Clock.Clock, processClock),
        receiver: (script = succeeds(), organization = ORGANIZATION) =>
          Effect.flatMap(client({ name: `receiver ${randomUUID()}` }, organization), (admin) =>
            makeReceiver(admin, script, millisUnsafe)
          ).pipe(Effect.provideService(Scope.Scope, scope))
      })
    })
  )

/** The settings of a service that only this machine can reach and that may send to loopback. */
const settings = Effect.fnUntraced(function* (options: Pick<TestOptions, "databaseUrl" | "environment">) {
  const url = options.databaseUrl ?? (yield* temporaryDatabase)
  const decoded = Settings.decode(
    {
      PORT: "0",
      DATABASE_URL: Redacted.value(url),
      COUNTERSIGN_MASTER_KEY: masterKeyOf(url),
      COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
      COUNTERSIGN_EGRESS_HTTP: "true",
      COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_NETWORK_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_TESTS_PER_MINUTE: "0",
      COUNTERSIGN_NOTIFY_CHALLENGES_PER_MINUTE: "0",
      COUNTERSIGN_MAIL_PER_ADDRESS_AND_HOUR: "0",
      COUNTERSIGN_MAIL_LINKS_PER_HOUR: "0",
      COUNTERSIGN_STOP_SECONDS: "1",
      // On a busy machine anything can be slow, which says nothing about the code under test.
      COUNTERSIGN_SLOW_REQUEST_MILLIS: "0",
      COUNTERSIGN_SLOW_STATEMENT_MILLIS: "0",
      ...options.environment
    },
    { cwd: tmpdir(), uid: undefined }
  )
  return (yield* Effect.orDie(Effect.fromResult(decoded))).settings
})

/** The default master key of a test's database: a second service on it, which could not start with another key, gets the same. */
const masterKeyOf = (url: Redacted.Redacted): string =>
  createHash("sha256")
    .update(`countersign-testing\0${URL.parse(Redacted.value(url))?.pathname ?? ""}`)
    .digest("base64")

/** Starts an embedded PostgreSQL that is stopped and deleted with the scope, or when this process ends; returns its URL. */
const temporaryDatabase = Effect.gen(function* () {
  const dataDir = yield* temporaryDirectory("countersign-testing-")
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return Context.get(store, EmbeddedPostgres).url
})
