import { Cause, Context, Effect, Exit, Latch, Layer, Option, Stream } from "effect"
import { Authorized, CurrentPrincipal } from "../../../src/api/Authorization.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import type { SessionId } from "../../../src/domain/Ids.ts"
import type { Approvals } from "../../../src/server/approvals/Approvals.ts"
import { Deadlines } from "../../../src/server/approvals/Deadlines.ts"
import type { Grants } from "../../../src/server/approvals/Grants.ts"
import type { Rules } from "../../../src/server/approvals/Rules.ts"
import type { Sessions } from "../../../src/server/approvals/Sessions.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import { SessionStream } from "../../../src/server/approvals/SessionStream.ts"
import type { Steps } from "../../../src/server/approvals/Steps.ts"
import type { Notifications } from "../../../src/server/notifications/Notifications.ts"
import { Revocations } from "../../../src/server/identity/Revocations.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import type { Machine } from "../core/Faults.ts"
import { Host } from "../core/Host.ts"
import { StoreClient } from "../core/StoreClient.ts"
import { makeModelClient } from "./ModelClient.ts"
import { layerClient, layerServices } from "./services.ts"
import type { World } from "./World.ts"

/** The pause of a process manager before it starts a process again that could not start, in milliseconds. */
const START_AGAIN_MILLIS = 1_000

/** How far the clock of a machine is from the right time at most, in milliseconds. */
const SKEW_MILLIS = 5_000

/** How long a graceful shutdown waits for open requests at most. */
const DRAIN_MILLIS = 10_000

/** The services whose code runs in a simulation. */
export type Simulated =
  Approvals | Deadlines | Grants | Notifications | Rules | Sessions | SessionStream | Steps | StoreClock

/** What a request's effect may use. */
export type RequestServices = Simulated | CurrentPrincipal

/** One process of the service: approvals, sessions, deadlines and streams as they are, over the model of the store. */
export class Replica implements Machine {
  readonly world: World
  readonly number: number
  readonly host: Host
  isReady = false
  /** When it was ready first, in milliseconds of the simulation. */
  readySince = Infinity
  stoppingSince: number | undefined
  /** The time of the service, in milliseconds since the Unix epoch; undefined until it has started. */
  clockMillis: (() => number) | undefined
  readonly #stop = Latch.makeUnsafe(false)
  readonly #drained = Latch.makeUnsafe(true)
  #requests = 0
  #services: Context.Context<Simulated> | undefined

  constructor(world: World, number: number, incarnation: number) {
    this.world = world
    this.number = number
    const name = `replica ${number}${incarnation === 0 ? "" : ` (start ${incarnation + 1})`}`
    this.host = new Host(world.simulation, name, world.plan.maxOpsBeforeYield)
    const machine = world.replicas[number]?.host
    this.host.wallSkewMillis = machine?.wallSkewMillis ?? this.host.random.between(-SKEW_MILLIS, SKEW_MILLIS)
    const client = new StoreClient(this.host, world.network, {
      connections: world.plan.connections,
      lockMillis: 0
    })
    const main = Effect.scoped(
      Effect.gen({ self: this }, function* () {
        const sql = yield* makeModelClient(world.model, client, world.notifications)
        const services = yield* Layer.build(
          Layer.mergeAll(SessionStream.layer(), Deadlines.layerWorker()).pipe(
            Layer.provideMerge(
              layerServices({
                deadlineBatch: world.plan.deadlineBatch,
                enqueued: (rows) => world.checks.enqueued(rows)
              })
            ),
            Layer.provideMerge(Layer.mergeAll(SessionSignals.layer(), StoreClock.layer, layerRevocations)),
            Layer.provide(layerClient(sql))
          )
        )
        const stream = Context.get(services, SessionStream)
        const { millisUnsafe } = Context.get(services, StoreClock)
        this.#services = services
        this.clockMillis = millisUnsafe
        this.isReady = true
        this.readySince = world.simulation.now
        world.simulation.log(() => `${name}: is ready`)
        yield* this.#stop.await
        this.isReady = false
        yield* stream.endAll
        yield* Effect.timeoutOption(this.#drained.await, DRAIN_MILLIS)
      })
    )
    this.host.run(main).addObserver((exit) => {
      if (Exit.isFailure(exit)) {
        if (this.#services !== undefined)
          world.checks.fail(`${name} ended by itself: ${Cause.pretty(exit.cause)}`)
        world.simulation.log(() => `${name}: cannot start`)
        if (this.stoppingSince === undefined) {
          world.simulation.schedule(START_AGAIN_MILLIS, () => world.startReplica(number))
        }
      }
      world.simulation.log(() => `${name}: has ended`)
      this.host.kill()
    })
  }

  stop(): void {
    this.stoppingSince = this.world.simulation.now
    this.isReady = false
    // A frozen process handles the signal when it continues.
    this.host.after(0, () => this.#stop.openUnsafe())
  }

  /** Runs a request. `done` gets its result, unless the process dies before; the returned function interrupts it. */
  request<A, E>(
    principal: Principal,
    effect: Effect.Effect<A, E, RequestServices>,
    done: (exit: Exit.Exit<A, E>) => void
  ): () => void {
    const services = this.#services
    if (services === undefined) return () => {}
    this.#requests++
    this.#drained.closeUnsafe()
    const fiber = this.host.run(
      effect.pipe(Effect.provideService(CurrentPrincipal, principal), Effect.provideContext(services))
    )
    fiber.addObserver((exit) => {
      if (--this.#requests === 0) this.#drained.openUnsafe()
      done(exit)
    })
    return () => this.host.after(0, () => fiber.interruptUnsafe())
  }

  /**
   * Follows a session's events, as a streamed response does: `send` passes bytes to the client, and completes when its socket has accepted
   * them. `done` gets true if the stream has come to its end.
   */
  follow(
    principal: Principal,
    session_id: SessionId,
    after: number | undefined,
    send: (bytes: Uint8Array) => Effect.Effect<void>,
    done: (exit: Exit.Exit<boolean, { readonly _tag: string }>) => void
  ): () => void {
    const response = Effect.gen(function* () {
      const stream = yield* (yield* SessionStream).open(session_id, after)
      if (Option.isNone(stream)) return true
      yield* Stream.runForEach(stream.value, send)
      return false
    })
    return this.request(
      principal,
      Effect.provideService(Effect.scoped(response), Authorized("sessions.read"), principal),
      done
    )
  }
}

/** Keys do not end in a run. */
const layerRevocations = Layer.mock(Revocations, { subscribe: () => Effect.void })
