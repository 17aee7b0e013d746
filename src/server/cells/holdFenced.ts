import { Effect } from "effect"
import { OrganizationMoves, type OrganizationMovesShape } from "../identity/OrganizationMoves.ts"
import { AttemptHeld, type Channel } from "../delivery/Channel.ts"

const holdOne = (channel: Channel, { isFenced, track }: OrganizationMovesShape): Channel => ({
  ...channel,
  load: (ref, admit) =>
    isFenced(ref.org_id)
      ? Effect.fail(new AttemptHeld())
      : Effect.map(
          channel.load(ref, admit),
          (send) => (began) =>
            Effect.suspend(() =>
              isFenced(ref.org_id) ? Effect.fail(new AttemptHeld()) : track(ref.org_id)(send(began))
            )
        )
})

/** Channels that hold the deliveries of organizations that move to or from another installation, and count those in flight. */
export const holdFenced = <E, R>(
  channels: Effect.Effect<ReadonlyArray<Channel>, E, R>
): Effect.Effect<ReadonlyArray<Channel>, E, R> =>
  Effect.flatMap(OrganizationMoves, (moves) =>
    Effect.map(channels, (list) => list.map((channel) => holdOne(channel, moves)))
  )
