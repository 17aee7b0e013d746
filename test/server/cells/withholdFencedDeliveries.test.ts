import { assert, describe, it } from "@effect/vitest"
import { Effect, Queue } from "effect"
import type { OrgId } from "../../../src/domain/Ids.ts"
import { withholdFencedDeliveries } from "../../../src/server/cells/withholdFencedDeliveries.ts"
import { AttemptHeld, type Channel } from "../../../src/server/delivery/Channel.ts"
import { OrganizationMoves } from "../../../src/server/identity/OrganizationMoves.ts"
import {
  delivered,
  failing,
  manualChannel,
  queueRow,
  quickPolicy,
  startDispatcher
} from "../../support/delivery.ts"

/** A dispatcher of a channel that holds fenced organizations, and the attempts in flight that replicas report. */
const start = Effect.fnUntraced(function* (change: (channel: Channel) => Channel = (channel) => channel) {
  const inFlight: Array<OrgId> = []
  const { attempts, channel } = yield* manualChannel(quickPolicy())
  const [held] = yield* withholdFencedDeliveries(Effect.succeed([change(channel)])).pipe(
    Effect.provideService(OrganizationMoves, {
      refusalOf: () => undefined,
      isFenced: () => false,
      track: () => (work) => work,
      begin: (org_id) => {
        inFlight.push(org_id)
        return () => void inFlight.splice(inFlight.indexOf(org_id), 1)
      },
      subscribe: () => Effect.void,
      poll: Effect.void
    })
  )
  const { dispatcher } = yield* startDispatcher(held ?? assert.fail("a channel"))
  return { attempts, dispatcher, inFlight }
})

describe("deliveries of an organization that moves", () => {
  it.effect("an attempt is in flight until its result is recorded or dropped", () =>
    Effect.gen(function* () {
      const { attempts, dispatcher, inFlight } = yield* start()
      dispatcher.offer([queueRow({ seq: 1 }), queueRow({ seq: 2 }), queueRow({ seq: 3 })], 0, 0)
      const sent = yield* Queue.takeN(attempts, 3)
      assert.lengthOf(inFlight, 3)
      for (const [index, attempt] of sent.entries()) {
        yield* attempt.complete(index === 1 ? failing : delivered)
        const [result] = yield* dispatcher.takeResults(1)
        assert.lengthOf(inFlight, 3 - index)
        if (result === undefined) return assert.fail("a result")
        if (index === 2) dispatcher.abandon(result)
        else dispatcher.acknowledge([{ result, retryAt: index === 1 ? 60_000 : null }])
        assert.lengthOf(inFlight, 2 - index)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("an attempt that a channel holds back is not in flight", () =>
    Effect.gen(function* () {
      const tried = yield* Queue.unbounded<void>()
      let isHeld = false
      const { attempts, dispatcher, inFlight } = yield* start((channel) => ({
        ...channel,
        load: (ref, admit) =>
          isHeld
            ? channel.load(ref, admit)
            : Effect.succeed(() => {
                isHeld = true
                return Effect.andThen(Queue.offer(tried, undefined), Effect.fail(new AttemptHeld()))
              })
      }))
      dispatcher.offer([queueRow()], 0, 0)
      yield* Queue.take(tried)
      // Its second attempt is the only one in flight.
      yield* Queue.take(attempts)
      assert.lengthOf(inFlight, 1)
    }).pipe(Effect.scoped)
  )
})
