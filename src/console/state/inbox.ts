/**
 * The pending approvals of the organization, for the approvals page: read page by page, then kept current by the stream of changes
 * (`inboxStream.ts`). After a broken stream the whole inbox is read again, because changes may have been missed.
 */
import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import type { InboxApproval } from "../../api/Console.ts"
import { type InboxFollower, makeInboxFollower, type InboxState } from "./inbox/InboxFollower.ts"
import { consoleClient } from "./consoleClient.ts"
import { isStillSignedIn, subscribeToInbox } from "./inboxStream.ts"

export type { InboxState } from "./inbox/InboxFollower.ts"

const emptyInbox: InboxState = { phase: "loading", pending: [], closed: new Map(), fullReads: 0 }

let currentFollower: InboxFollower | undefined

/** The inbox, kept current while a component shows it. */
export const inboxAtom = Atom.make((get): InboxState => {
  let frame: number | undefined
  const show = () => {
    frame = undefined
    get.setSelf(follower.state())
  }
  const follower = Effect.runSync(
    makeInboxFollower({
      connect: subscribeToInbox,
      isStillSignedIn,
      list: (last) =>
        consoleClient.inbox.list({
          query: last === undefined ? {} : { after: last.expires_at, after_id: last.approval_id }
        }),
      // At most one update per animation frame, however many changes arrive.
      onChange: (immediately) => {
        if (immediately) show()
        else frame ??= requestAnimationFrame(show)
      }
    })
  )
  follower.connect()
  currentFollower = follower
  get.addFinalizer(() => {
    follower.pause()
    if (frame !== undefined) cancelAnimationFrame(frame)
  })
  return emptyInbox
})

/** Applies an approval from an API response, without waiting for the same change on the stream. */
export const applyApproval = (approval: InboxApproval): void => currentFollower?.applyApproval(approval)
