import type { Connection, StoreNetwork } from "./StoreClient.ts"
import type { Transaction } from "./Store.ts"

/** The chance that a notification is late, and how late it is at most, in milliseconds. */
const LATE_CHANCE = 0.02
const LATE_MILLIS = 2_000

/** LISTEN and NOTIFY: a notification reaches those that listen when its transaction commits, or is lost with their connection. */
export class Notifications {
  readonly network: StoreNetwork
  /** Notifications before this time are lost, in milliseconds of the simulation. */
  lostUntil = 0
  /** When a notification was last sent that is late, in milliseconds of the simulation. */
  lateAt = Number.NEGATIVE_INFINITY
  readonly #listeners = new Map<Connection, (payload: string) => void>()

  constructor(network: StoreNetwork) {
    this.network = network
  }

  listen(connection: Connection, on: (payload: string) => void): void {
    this.#listeners.set(connection, on)
    connection.onClose(() => this.#listeners.delete(connection))
  }

  notify(transaction: Transaction, payloads: ReadonlyArray<string>): void {
    transaction.onCommit(() => {
      const { simulation, random } = this.network.store
      if (simulation.now < this.lostUntil) return
      for (const [connection, on] of this.#listeners) {
        const late = random.chance(LATE_CHANCE) ? random.next() * LATE_MILLIS : 0
        if (late > 0) this.lateAt = simulation.now
        for (const payload of payloads) {
          connection.host.after(random.next() * this.network.latencyMillis + late, () => {
            if (connection.isOpen && !connection.isSilent) on(payload)
          })
        }
      }
    })
  }
}
