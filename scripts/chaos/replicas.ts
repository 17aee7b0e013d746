import { Effect, type Redacted, Redacted as Secret, type Scope, Semaphore } from "effect"
import { NetAddress } from "effect/net"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { masterKey } from "../../test/support/delivery.ts"
import { nameServer } from "../../test/support/dns.ts"
import { persistently } from "./persistently.ts"

/** A replica that delivers webhooks. */
export interface DeliveryReplica {
  readonly child: ChildProcess
  /** Its id among the owners of shards. */
  readonly owner: string
  /** The address its requests arrive at: every name it looks up resolves to this address. */
  readonly address: string
  /** Completes when the process has ended, with its exit status, or null after a signal. */
  readonly ended: Promise<number | null>
}

const program = fileURLToPath(new URL("../../test/faults/deliveryProcess.ts", import.meta.url))

/** The delay before each attempt, in seconds; short, because the receiver fails sometimes. */
const DELAYS = "0,1,1,1,1,1,1,1"

/** How often the owners are polled until a new one appears: 30 s. */
const OWNER_LOOKS = 600

/**
 * Starts replicas one after the other, so that each can be identified by the owner that it adds. Killed when the scope
 * closes.
 */
export const makeReplicaStarter = (
  url: Redacted.Redacted
): Effect.Effect<() => Effect.Effect<DeliveryReplica, never, Scope.Scope | SqlClient.SqlClient>> =>
  Effect.map(Semaphore.make(1), (semaphore) => {
    let started = 0
    /** The owners of earlier replicas. One that was frozen may register again while another starts. */
    const known = new Set<string>()
    const owners = Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ readonly owner: string }>`SELECT owner FROM delivery_owners`
    ).pipe(
      persistently,
      Effect.map((rows) => rows.map((row) => row.owner))
    )
    const start: Effect.Effect<DeliveryReplica, never, Scope.Scope | SqlClient.SqlClient> = Effect.gen(
      function* () {
        const number = ++started
        const address = `127.1.${Math.floor(number / 250)}.${(number % 250) + 1}`
        const dns = yield* nameServer(() => [address])
        const before = new Set(yield* owners)
        const child = yield* Effect.acquireRelease(
          Effect.sync(() => {
            const server = NetAddress.formatInet(dns.address)
            const args = [program, Secret.value(url), Secret.value(masterKey), "10000", server, DELAYS]
            return spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] })
          }),
          (child) => Effect.sync(() => void child.kill("SIGKILL"))
        )
        const ended = new Promise<number | null>((resume) => child.once("exit", (code) => resume(code)))
        const ready = once(child.stdout, "data").then(() => true)
        const up = yield* Effect.promise(() => Promise.race([ready, ended.then(() => false)]))
        // A replica that finds no database at start exits, and its supervisor starts it again.
        if (!up) return yield* start
        child.stdout.resume()
        // It has tried to send its heartbeat; while the database restarts that may take another try.
        const owner = yield* owners.pipe(
          Effect.map((list) => list.find((one) => !before.has(one) && !known.has(one))),
          Effect.tap((one) => (one === undefined ? Effect.sleep("50 millis") : Effect.void)),
          Effect.repeat({ until: (one) => one !== undefined, times: OWNER_LOOKS })
        )
        if (owner === undefined) return yield* Effect.die(new Error("A replica did not register"))
        known.add(owner)
        return { child, address, ended, owner }
      }
    )
    return () => semaphore.withPermit(start)
  })
