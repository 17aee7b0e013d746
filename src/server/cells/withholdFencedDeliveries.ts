import { Effect } from "effect"
import { OrganizationMoves, type OrganizationMovesShape } from "../identity/OrganizationMoves.ts"
import { AttemptHeld, type Channel } from "../delivery/Channel.ts"

/**
 * An attempt is in flight until its result is recorded, not only until it was sent: a fence in between would refuse the result, and the
 * other installation would send the delivery again.
 */
const withholdFenced = (channel: Channel, { begin, isFenced }: OrganizationMovesShape): Channel => {
  /** End the attempts whose results are not recorded yet, by the ids of their deliveries. */
  const ends = new Map<string, () => void>()
  const end = (delivery_id: string) => {
    ends.get(delivery_id)?.()
    ends.delete(delivery_id)
  }
  return {
    ...channel,
    load: (ref, admit) =>
      isFenced(ref.org_id)
        ? Effect.fail(new AttemptHeld())
        : Effect.map(
            channel.load(ref, admit),
            (send) => (began) =>
              Effect.suspend(() => {
                if (isFenced(ref.org_id)) return Effect.fail(new AttemptHeld())
                end(ref.delivery_id)
                ends.set(ref.delivery_id, begin(ref.org_id))
                // Without a result, nothing is recorded. A defect and an interruption have one.
                return Effect.tapError(send(began), () => Effect.sync(() => end(ref.delivery_id)))
              })
          ),
    onRecorded: (ref) => {
      channel.onRecorded?.(ref)
      end(ref.delivery_id)
    }
  }
}

/**
 * Channels that withhold the deliveries of organizations that move to or from another installation, and count the attempts whose results are not
 * recorded yet.
 */
export const withholdFencedDeliveries = <E, R>(
  channels: Effect.Effect<ReadonlyArray<Channel>, E, R>
): Effect.Effect<ReadonlyArray<Channel>, E, R> =>
  Effect.flatMap(OrganizationMoves, (moves) =>
    Effect.map(channels, (list) => list.map((channel) => withholdFenced(channel, moves)))
  )
