/**
 * The pending approvals of the organization: read page by page, then kept current by a server-sent event stream. After a broken stream
 * the whole inbox is read again, because changes may have been missed. A hidden tab closes its stream: browsers limit the connections
 * to one origin across all tabs.
 */
import { Effect, Exit, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH, InboxApproval } from "../../api/Console.ts"
import {
  type InboxFollower,
  makeInboxFollower,
  type InboxListener,
  type InboxState
} from "./inbox/InboxFollower.ts"
import { consoleClient } from "./consoleClient.ts"
import { endSession, enterSession } from "./session.ts"

export type { InboxState } from "./inbox/InboxFollower.ts"

const decode = Schema.decodeUnknownExit(Schema.fromJsonString(InboxApproval))

const openEventSource = (listener: InboxListener) => {
  const source = new EventSource(`${CONSOLE_PATH}/inbox/stream`)
  source.addEventListener("open", listener.opened)
  source.addEventListener("ping", listener.ping)
  source.addEventListener("resync", listener.resync)
  source.addEventListener("approval", ({ data }: MessageEvent<unknown>) => {
    const approval = decode(data)
    if (Exit.isSuccess(approval)) listener.approval(approval.value)
  })
  // The browser reconnects by itself unless the server refused the request.
  source.addEventListener("error", () => listener.broken(source.readyState === EventSource.CLOSED))
  return () => source.close()
}

/** Whether the page's session is still the current one: another tab may have signed out or signed in. No response counts as yes. */
const isStillSignedIn = Effect.match(consoleClient.session.get({}), {
  onFailure: () => true,
  onSuccess: (session) => {
    if (session === null) endSession()
    return session !== null && enterSession(session)
  }
})

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
      connect: openEventSource,
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
  const onVisibilityChange = () => (document.hidden ? follower.pause() : follower.connect())
  document.addEventListener("visibilitychange", onVisibilityChange)
  for (const type of ["online", "focus"]) addEventListener(type, follower.check)
  if (!document.hidden) follower.connect()
  currentFollower = follower
  get.addFinalizer(() => {
    document.removeEventListener("visibilitychange", onVisibilityChange)
    for (const type of ["online", "focus"]) removeEventListener(type, follower.check)
    follower.pause()
    if (frame !== undefined) cancelAnimationFrame(frame)
  })
  return emptyInbox
})

/** Applies an approval from an API response, without waiting for the same change on the stream. */
export const applyApproval = (approval: InboxApproval): void => currentFollower?.applyApproval(approval)
