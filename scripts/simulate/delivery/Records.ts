import type { DeliveryModel, LogEntry, RecordedAttempt } from "./DeliveryModel.ts"
import type { Attempt } from "./Checks.ts"

/**
 * The records against what the receivers saw, at each commit: a recorded attempt was made and ended as recorded, once; a
 * delivery is queued exactly as long as it is pending; the hook of the channel has run once for each final result.
 */
export class Records {
  readonly #model: DeliveryModel
  readonly #attemptsOf: (delivery_id: string) => ReadonlyArray<Attempt>
  readonly #hasHook: boolean
  readonly #logged = new Map<string, Set<number>>()
  /** How many times a delivery reached a final status by a result. */
  readonly #finals = new Map<string, number>()

  constructor(
    model: DeliveryModel,
    attemptsOf: (delivery_id: string) => ReadonlyArray<Attempt>,
    hasHook: boolean
  ) {
    this.#model = model
    this.#attemptsOf = attemptsOf
    this.#hasHook = hasHook
  }

  /** The first wrong record of a commit. */
  check(list: ReadonlyArray<RecordedAttempt>): string | undefined {
    for (const one of list) {
      const wrong = this.#checkOne(one) ?? this.#checkFinal(one)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }

  #checkOne({ attempt, delivery_id, sent, status }: RecordedAttempt): string | undefined {
    if (!sent) return undefined
    const logged = this.#logged.get(delivery_id) ?? new Set()
    this.#logged.set(delivery_id, logged)
    if (logged.has(attempt)) return `${delivery_id} logs attempt ${attempt} twice`
    logged.add(attempt)
    const made = this.#attemptsOf(delivery_id).filter((one) => one.delivery.attempt + 1 === attempt)
    if (made.length === 0) return `${delivery_id} logs attempt ${attempt}, which was not made`
    const isTrue = made.some(
      ({ answered, outcome }) => outcome !== undefined && (status === null || answered === status)
    )
    return isTrue
      ? undefined
      : `${delivery_id} logs attempt ${attempt} with status ${status}, which no receiver gave`
  }

  #checkFinal({ delivery_id, seq, status_after }: RecordedAttempt): string | undefined {
    const isQueued = this.#model.queue.committedRow(String(seq)) !== undefined
    if (isQueued !== (status_after === "pending"))
      return `${delivery_id} is ${status_after}, and ${isQueued ? "still" : "no longer"} queued`
    if (status_after === "pending") return undefined
    const finals = (this.#finals.get(delivery_id) ?? 0) + 1
    this.#finals.set(delivery_id, finals)
    if (status_after === "delivered" && !this.#attemptsOf(delivery_id).some(isAccepted))
      return `${delivery_id} is delivered, but no receiver accepted it`
    const hooks = this.#model.completions.committedRow(delivery_id)?.count ?? 0
    return this.#hasHook && hooks !== finals
      ? `The hook of the channel ran ${hooks} times for ${delivery_id}, which was finished ${finals} times`
      : undefined
  }

  /** At the end: the log of a delivery counts the attempts that were logged. */
  isComplete(delivery_id: string, { attempts }: LogEntry): boolean {
    return (this.#logged.get(delivery_id)?.size ?? 0) === attempts
  }
}

const isAccepted = ({ answered }: Attempt): boolean => answered === 200
