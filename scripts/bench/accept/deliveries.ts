/**
 * A service with one webhook endpoint at a receiver on this machine, and the cost and duration of delivering an event
 * there.
 */
import { alternate, evenly, line, quantile } from "../measure.ts"
import { nowMicros } from "../delivery/protocol.ts"
import { startReceiver } from "../delivery/harness.ts"
import type { Load } from "../steps/load.ts"
import { PEER, type Request, type Side, type Sides, startDeliveringSides } from "../steps/sides.ts"

/** The sides, each with one endpoint at the same receiver. The bare handler delivers approvals that a step asks for, and nothing else. */
export interface Delivering extends Sides {
  /** The sides without the bare handler. */
  readonly services: ReadonlyArray<Side>
  /** Completes when the side has sent and recorded all that is queued. */
  readonly settle: (side: Side) => Promise<void>
  /** The receipts since the last call: when each event arrived, in microseconds, by its id. */
  readonly takeReceipts: () => Promise<ReadonlyMap<string, number>>
}

/** Poll interval of `settle`. */
const POLL_MILLIS = 20

/** Starts the receiver, which answers immediately with 204, and the services. */
export const startDelivering = async (): Promise<Delivering> => {
  const receiver = await startReceiver()
  const started = await startDeliveringSides(receiver.port)
  return {
    ...started,
    services: started.all.filter(({ name }) => name !== PEER),
    settle: async ({ sql }) => {
      while ((await sql.query("SELECT FROM delivery_queue LIMIT 1")).rowCount !== 0) {
        await new Promise((resolve) => setTimeout(resolve, POLL_MILLIS))
      }
    },
    takeReceipts: async () =>
      new Map((await receiver.take()).map(([request, at]) => [request.split(" ")[1] ?? "", at])),
    dispose: async () => {
      await started.dispose()
      receiver.kill()
    }
  }
}

/** Events of one kind. */
export interface EventKind {
  /** Prepares a round and returns the source of its requests, each of which causes one event. */
  readonly prepare: Load["prepare"]
  /** The column of the event's row that a request or its response names, and how to read it from them. */
  readonly idOf: (request: Request, response: string) => string
  /** Selects the ids of events by the ids of their requests, which are `$1`. Columns `id` and `event_id`. */
  readonly eventIds: string
}

/** Load of the latencies: arrivals per second, and the length of a round. */
const PER_SECOND = 100
const SECONDS = 4
const ROUNDS = 3

/** Open-loop load at an even rate; prints the time to the receipt, from the request and from its answer. */
export const reportLatency = async (
  title: string,
  { settle, takeReceipts }: Delivering,
  all: ReadonlyArray<Side>,
  kind: EventKind
): Promise<void> => {
  const measured = all.map(() => ({
    fromRequest: new Array<ReadonlyArray<number>>(),
    fromAnswer: new Array<ReadonlyArray<number>>(),
    refused: 0
  }))
  const runRound = async (side: Side, seconds: number) => {
    const next = await kind.prepare(side)
    const sent = new Map<string, { readonly sent: number; readonly answered: number }>()
    await settle(side)
    await takeReceipts()
    const refusals: Array<unknown> = []
    await evenly(PER_SECOND, seconds, async () => {
      const request = next()
      const at = nowMicros()
      try {
        const response = await side.send(request)
        sent.set(kind.idOf(request, response), { sent: at, answered: nowMicros() })
      } catch (cause) {
        // An overloaded service refuses requests.
        refusals.push(cause)
      }
    })
    if (sent.size === 0) throw new Error("Every request was refused", { cause: refusals[0] })
    await settle(side)
    const receipts = await takeReceipts()
    const { rows } = await side.sql.query<{ id: string; event_id: string }>(kind.eventIds, [[...sent.keys()]])
    const millis = rows.flatMap(({ event_id, id }) => {
      const [times, receipt] = [sent.get(id), receipts.get(event_id)]
      return times === undefined || receipt === undefined
        ? []
        : [{ fromRequest: (receipt - times.sent) / 1_000, fromAnswer: (receipt - times.answered) / 1_000 }]
    })
    if (millis.length !== sent.size)
      throw new Error(`${sent.size - millis.length} of ${sent.size} events did not arrive`)
    // An event that was refused never arrives.
    const never = refusals.map(() => Number.POSITIVE_INFINITY)
    return {
      fromRequest: [...millis.map(({ fromRequest }) => fromRequest), ...never],
      fromAnswer: millis.map(({ fromAnswer }) => fromAnswer),
      refused: refusals.length
    }
  }
  for (const side of all) await runRound(side, 1)
  await alternate(
    all.map((side, index) => async () => {
      const { fromAnswer, fromRequest, refused } = await runRound(side, SECONDS)
      const figures = measured[index]
      figures?.fromAnswer.push(fromAnswer)
      figures?.fromRequest.push(fromRequest)
      if (figures !== undefined) figures.refused += refused
      return quantile(fromRequest, 0.5)
    }),
    { warmUp: 0, rounds: ROUNDS }
  )
  console.log(
    `\n${title}, ${PER_SECOND} per second, open loop, ${ROUNDS} interleaved rounds of ${SECONDS} s\n`
  )
  for (const [index, { name }] of all.entries()) {
    const rounds = measured[index]
    if (rounds === undefined) continue
    for (const [what, from] of [
      ["request to receipt", rounds.fromRequest],
      ["answer to receipt", rounds.fromAnswer]
    ] as const) {
      for (const q of [0.5, 0.95, 0.99]) {
        const values = from.map((millis) => quantile(millis, q))
        console.log(line(`${name}, ${what}, p${q * 100}`, values, "ms"))
      }
    }
    if (rounds.refused > 0) console.log(line(`${name}, requests refused`, [rounds.refused], ""))
  }
}
