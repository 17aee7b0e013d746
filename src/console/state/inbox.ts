/**
 * What waits for a person, as this page knows it: read page by page when it opens, then kept by the service's word of each change. A
 * stream that broke may have missed some, so everything is read again when it is back. A page that nobody sees has no stream: a browser
 * has few connections to one service, for all of its tabs.
 */
import { Effect, Exit, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { ApprovalSnapshot } from "../../api/SessionStream.ts"
import {
  type InboxFollower,
  makeInboxFollower,
  type InboxListener,
  type InboxState
} from "./inbox/InboxFollower.ts"
import { consoleClient } from "./consoleClient.ts"
import { endSession, enterSession } from "./session.ts"

export type { InboxState } from "./inbox/InboxFollower.ts"

const decode = Schema.decodeUnknownExit(Schema.fromJsonString(ApprovalSnapshot))

const openEventSource = (hear: InboxListener) => {
  const source = new EventSource(`${CONSOLE_PATH}/inbox/stream`)
  source.addEventListener("open", hear.opened)
  source.addEventListener("resync", hear.resync)
  source.addEventListener("approval", ({ data }: MessageEvent<unknown>) => {
    const approval = decode(data)
    if (Exit.isSuccess(approval)) hear.approval(approval.value)
  })
  // The browser connects again by itself, save where the service refused.
  source.addEventListener("error", () => hear.broken(source.readyState === EventSource.CLOSED))
  return () => source.close()
}

/** Nobody may be signed in any more, or somebody else by another tab. A service that does not answer says neither. */
const isStillSignedIn = Effect.match(consoleClient.session.get({}), {
  onFailure: () => true,
  onSuccess: (session) => {
    if (session === null) endSession()
    return session !== null && enterSession(session)
  }
})

const emptyInbox: InboxState = { phase: "loading", pending: [], closed: new Map(), fullReads: 0 }

let currentFollower: InboxFollower | undefined

/** The inbox, followed as long as something shows it. */
export const inboxAtom = Atom.make((get): InboxState => {
  let frame: number | undefined
  const show = () => {
    frame = undefined
    get.setSelf(mine.state())
  }
  const mine = Effect.runSync(
    makeInboxFollower({
      connect: openEventSource,
      isStillSignedIn,
      list: (last) =>
        consoleClient.inbox.list({
          query: last === undefined ? {} : { after: last.expires_at, after_id: last.approval_id }
        }),
      // At most once a frame, however much comes.
      onChange: (now) => {
        if (now) show()
        else frame ??= requestAnimationFrame(show)
      }
    })
  )
  const look = () => (document.hidden ? mine.pause() : mine.connect())
  document.addEventListener("visibilitychange", look)
  if (!document.hidden) mine.connect()
  currentFollower = mine
  get.addFinalizer(() => {
    document.removeEventListener("visibilitychange", look)
    mine.pause()
    if (frame !== undefined) cancelAnimationFrame(frame)
  })
  return emptyInbox
})

/** An approval as an answer of the service shows it: shown before the stream says the same. */
export const applyApproval = (approval: ApprovalSnapshot): void => currentFollower?.applyApproval(approval)
