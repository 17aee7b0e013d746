import { Effect, Exit } from "effect"
import type { SessionId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import type { RandomStream } from "../core/RandomStream.ts"
import type { Follow } from "./Plan.ts"
import type { Replica } from "./Replica.ts"
import type { World } from "./World.ts"

/** Without a byte for this long, a client takes its connection for lost, in milliseconds: three heartbeats. */
const SILENCE_MILLIS = 45_000

/** The longest pause before a client connects again, in milliseconds. */
const RECONNECT_MILLIS = 3_000

/** The longest time that bytes take to a client, in milliseconds. */
const LATENCY_MILLIS = 20

/** The size of a heartbeat, or of the beginning of a stream, at most. */
const SMALL_BYTES = 32

/** Between two messages of a connection, in milliseconds: events of the same moment happen in any order. */
const IN_ORDER_MILLIS = 0.001

/** A connection of a follower to one replica. */
interface Connection {
  readonly replica: Replica
  readonly since: number
  isOpen: boolean
  /** The end of the time when the last bytes arrive: they arrive in order. */
  arrivedAt: number
  leave: () => void
}

/** A client that follows the events of a session, and resumes at any replica after the last event that it has received. */
export class Follower {
  readonly world: World
  readonly session: number
  readonly session_id: SessionId
  readonly action: Follow
  readonly principal: Principal
  /** The number of the last event received. */
  received = 0
  hasEnded = false
  /** Since when it has a connection and is behind, in milliseconds of the simulation. */
  behindSince: number | undefined
  readonly #random: RandomStream
  #connection: Connection | undefined
  #heardAt = 0
  #rest = ""

  constructor(world: World, name: string, session_id: SessionId, principal: Principal, action: Follow) {
    this.world = world
    this.session = action.session
    this.session_id = session_id
    this.principal = principal
    this.action = action
    this.#random = world.simulation.random.fork(name)
    this.#connect(world.replicas[action.replica])
    this.#watch()
  }

  /** The replica that it is connected to, if that can send. */
  get replica(): Replica | undefined {
    const { replica } = this.#connection ?? {}
    return replica?.host.isAlive === true && !replica.host.isFrozen ? replica : undefined
  }

  get connectedSince(): number {
    return this.#connection?.since ?? Infinity
  }

  #watch(): void {
    this.world.simulation.schedule(1_000, () => {
      if (this.hasEnded) return
      const { now } = this.world.simulation
      const tooLong = this.action.reconnectMillis ?? Infinity
      if (this.#connection !== undefined) {
        if (now - this.#heardAt > SILENCE_MILLIS || now - this.#connection.since > tooLong) this.#disconnect()
      }
      this.#watch()
    })
  }

  #disconnect(): void {
    const connection = this.#connection
    if (connection === undefined) return
    this.#connection = undefined
    connection.isOpen = false
    connection.leave()
    this.world.simulation.schedule(this.#random.next() * RECONNECT_MILLIS, () =>
      this.#connect(this.world.someReplica(this.#random))
    )
  }

  #connect(replica: Replica | undefined): void {
    if (this.hasEnded || this.#connection !== undefined) return
    const { checks, simulation } = this.world
    if (replica === undefined || !replica.isReady) {
      simulation.schedule(this.#random.next() * RECONNECT_MILLIS, () =>
        this.#connect(this.world.someReplica(this.#random))
      )
      return
    }
    this.#heardAt = simulation.now
    this.#rest = ""
    const connection: Connection = {
      replica,
      since: simulation.now,
      isOpen: true,
      arrivedAt: 0,
      leave: () => {}
    }
    this.#connection = connection
    const end = () => {
      if (this.#connection === connection) this.#disconnect()
    }
    // The operating system of a killed process closes its connections.
    replica.host.onDeath(() => simulation.schedule(this.#random.next() * LATENCY_MILLIS, end))
    const after = this.received === 0 && this.#random.chance(0.5) ? undefined : this.received
    checks.counts.streams++
    connection.leave = replica.follow(
      this.principal,
      this.session_id,
      after,
      (bytes) =>
        Effect.callback<void>((resume) => {
          const { now } = simulation
          connection.arrivedAt = Math.max(
            connection.arrivedAt + IN_ORDER_MILLIS,
            now + this.#random.next() * LATENCY_MILLIS
          )
          simulation.schedule(connection.arrivedAt - now, () => {
            if (connection.isOpen) this.#receive(Buffer.from(bytes).toString())
          })
          // The socket accepts the next page when the client has read this one. It has room for a heartbeat.
          const longest = bytes.length > SMALL_BYTES ? this.action.readMillis : LATENCY_MILLIS
          replica.host.after(this.#random.next() * longest, () => resume(Effect.void))
        }),
      (exit) => {
        const wait = Math.max(0, connection.arrivedAt - simulation.now)
        simulation.schedule(wait + this.#random.next() * LATENCY_MILLIS, () => {
          if (!connection.isOpen) return
          checks.streamEnded(this, exit)
          if (Exit.isSuccess(exit) && exit.value) this.hasEnded = true
          end()
        })
      }
    )
  }

  #receive(text: string): void {
    this.#heardAt = this.world.simulation.now
    const parts = (this.#rest + text).split("\n\n")
    this.#rest = parts.pop() ?? ""
    for (const part of parts) {
      const [, number, type, data] = /^id: (\d+)\nevent: (.*)\ndata: (.*)$/.exec(part) ?? []
      if (number === undefined) continue
      this.world.checks.received(this, Number(number), type ?? "", data ?? "")
      this.received = Number(number)
      if (type === "session:closed") this.hasEnded = true
    }
  }
}
