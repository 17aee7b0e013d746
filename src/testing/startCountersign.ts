import { Clock, Context, type Duration, Effect, Exit, Layer, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import type { NewApiKey } from "../api/ApiKeys.ts"
import { connect, type CountersignClient } from "../client/connect.ts"
import { StoreClock } from "../server/store/StoreClock.ts"
import type { ServiceVariables } from "../server/config/Settings.ts"
import { Countersign } from "./Countersign.ts"
import type { ApprovalPattern, ScriptedPerson } from "./people.ts"
import type { ReceiverScript, TestReceiver } from "./receivers.ts"

/** How a test service differs from one without configuration. */
export interface StartOptions {
  /** URL of an empty database. Default: a temporary embedded PostgreSQL. */
  readonly databaseUrl?: string
  /** Additional environment variables. */
  readonly environment?: ServiceVariables
  /** The time at which it starts. Default: now. */
  readonly startsAt?: Date
}

/** Countersign for tests with promises. Its time stands still until the test moves it. */
export interface TestService extends AsyncDisposable {
  /** The base URL: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** The service's time. */
  readonly now: () => Date
  /** Creates a key, by default with the preset `admin` in the organization `test`. */
  readonly key: (input?: Partial<NewApiKey>, organization?: string) => Promise<string>
  /** Creates a key and returns a client that uses it. The client is closed with the service. */
  readonly connect: (input?: Partial<NewApiKey>, organization?: string) => Promise<CountersignClient>
  /**
   * Moves the service's time ahead: `advance("30 days")`. It stops wherever something is due, and goes on when that is done: approvals are
   * escalated and expire, people decide, deliveries are retried. Retention runs at the end.
   */
  readonly advance: (duration: Duration.Input) => Promise<void>
  /** Adds people who decide approvals by themselves: `people(approves({ tool: "payments.*" }, { after: "2 hours" }))`. */
  readonly people: (...people: ReadonlyArray<ScriptedPerson>) => Promise<void>
  /** Waits until a matching approval is pending, and returns its id. */
  readonly awaitPending: (pattern?: ApprovalPattern, organization?: string) => Promise<string>
  /** Creates a webhook endpoint with a receiver on this machine: `receiver(fails(3))`. */
  readonly receiver: (script?: ReceiverScript, organization?: string) => Promise<TestReceiver>
  /** Stops the service and removes its temporary database. */
  readonly stop: () => Promise<void>
}

/**
 * Starts Countersign in this process, for tests that do not use Effect: with vitest, `node:test` or any other runner.
 *
 * ```ts
 * const countersign = await startCountersign()
 * const agent = await countersign.connect({ preset: "runtime" })
 * …
 * await countersign.advance("30 days")
 * await countersign.stop()
 * ```
 */
export const startCountersign = async (options: StartOptions = {}): Promise<TestService> => {
  const scope = Scope.makeUnsafe()
  const inScope = <A, E>(effect: Effect.Effect<A, E, Scope.Scope>): Promise<A> =>
    Effect.runPromise(Effect.provideService(effect, Scope.Scope, scope))
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void))

  const start = Effect.gen(function* () {
    const clock = yield* TestClock.make()
    yield* clock.setTime((options.startsAt ?? new Date()).getTime())
    const { databaseUrl, environment } = options
    const layer = Countersign.layer({
      ...(databaseUrl === undefined ? {} : { databaseUrl: Redacted.make(databaseUrl) }),
      ...(environment === undefined ? {} : { environment })
    })
    const context = yield* Effect.provideService(Layer.build(layer), Clock.Clock, clock)
    return { service: Context.get(context, Countersign), time: Context.get(context, StoreClock) }
  })

  const { service, time } = await inScope(start).catch(async (cause: unknown) => {
    await stop()
    throw cause
  })
  const { advance, awaitPending, key, people, receiver, url } = service
  const keyText = async (input?: Partial<NewApiKey>, organization?: string) =>
    Redacted.value(await Effect.runPromise(key(input, organization)))
  const clients: Array<CountersignClient> = []
  const stopAll = async () => {
    await Promise.all(clients.map((client) => client.close()))
    await stop()
  }
  return {
    url,
    now: () => new Date(time.millisUnsafe()),
    key: keyText,
    connect: async (input, organization) => {
      const client = connect({ url, key: await keyText(input, organization) })
      clients.push(client)
      return client
    },
    advance: (duration) => Effect.runPromise(advance(duration)),
    people: (...scripts) => Effect.runPromise(people(...scripts)),
    awaitPending: (pattern, organization) => Effect.runPromise(awaitPending(pattern, organization)),
    receiver: (script, organization) => Effect.runPromise(receiver(script, organization)),
    stop: stopAll,
    [Symbol.asyncDispose]: stopAll
  }
}
