/**
 * A service with one webhook endpoint at a receiver on this machine, and the cost and duration of delivering an event
 * there.
 */
import { alternate, atMost, evenly, line, quantile } from "../measure.ts"
import { nowMicros } from "../delivery/protocol.ts"
import { startReceiver } from "../delivery/harness.ts"
import type { Load } from "../steps/load.ts"
import { type Request, type Side, type Sides, startServices } from "../steps/sides.ts"

/** A running service, an earlier build beside it if there is one, and the receiver. */
export interface Delivering extends Sides {
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
  const started = await startServices((side) => ({
    urls: [`http://127.0.0.1:${receiver.port}/${side}`],
    inCooldown: false
  }))
  return {
    ...started,
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

/** The upper limits of the latencies, in milliseconds. */
export interface LatencyLimits {
  readonly fromRequest?: { readonly p50: number; readonly p99?: number }
  readonly fromAnswer?: { readonly p50: number }
}

/** Open-loop load at an even rate; prints the time to the receipt, from the request and from its answer. */
export const reportLatency = async (
  title: string,
  { all, settle, takeReceipts }: Delivering,
  kind: EventKind,
  limits: LatencyLimits
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
    const own = index === 0 ? limits : {}
    const rounds = measured[index]
    if (rounds === undefined) continue
    const show = (
      what: string,
      from: ReadonlyArray<ReadonlyArray<number>>,
      maximum: { readonly p50?: number; readonly p99?: number } | undefined
    ) => {
      for (const [label, q, limit] of [
        ["p50", 0.5, maximum?.p50],
        ["p95", 0.95, undefined],
        ["p99", 0.99, maximum?.p99]
      ] as const) {
        const values = from.map((millis) => quantile(millis, q))
        const title = `${name}, ${what}, ${label}`
        console.log(
          limit === undefined ? line(title, values, "ms   ") : atMost(title, values, limit, "ms   ")
        )
      }
    }
    show("request to receipt", rounds.fromRequest, own.fromRequest)
    show("answer to receipt", rounds.fromAnswer, own.fromAnswer)
    if (rounds.refused > 0) console.log(line(`${name}, requests refused`, [rounds.refused], "     "))
  }
}
