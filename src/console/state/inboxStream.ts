/**
 * The stream of changes of approvals, which one tab of the session keeps for all (`inbox/SharedStream.ts`), and the number of approvals that
 * the signed-in key can approve. The lock and the channel are of the origin and named by the session, so that tabs of another session,
 * and with it of another organization, receive nothing.
 */
import { Effect, Exit, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH, InboxApproval, SESSION_PARAMETER } from "../../api/Console.ts"
import type { PendingCount } from "../../api/console/PendingCount.ts"
import type { ConsoleSessionId } from "../../domain/Ids.ts"
import { registry } from "./atoms.ts"
import { consoleClient } from "./consoleClient.ts"
import {
  type LeaderLock,
  makeSharedStream,
  type SharedListener,
  type SharedStream,
  type TabChannel
} from "./inbox/SharedStream.ts"
import type { StreamListener } from "./inbox/StreamConnection.ts"
import { withPageToken } from "./pageToken.ts"
import { endSession, enterSession } from "./session.ts"

/** How many approvals the key can approve; undefined: not known yet. */
export const pendingCountAtom = Atom.keepAlive(Atom.make<PendingCount | undefined>(undefined))

const decode = Schema.decodeUnknownExit(Schema.fromJsonString(InboxApproval))

const connectTo = (session: ConsoleSessionId) => (listener: StreamListener) => {
  const query = new URLSearchParams({ [SESSION_PARAMETER]: session })
  const source = new EventSource(withPageToken(`${CONSOLE_PATH}/inbox/stream?${query.toString()}`))
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
export const isStillSignedIn = Effect.match(consoleClient.session.get({}), {
  onFailure: () => true,
  onSuccess: (session) => {
    if (session === null) endSession()
    return session !== null && enterSession(session)
  }
})

const lockNamed = (name: string): LeaderLock => ({
  request: ({ granted, lost, steal }) => {
    const waiting = new AbortController()
    let giveUp: () => void = () => waiting.abort()
    let isGivenUp = false
    navigator.locks
      .request(name, steal ? { steal } : { signal: waiting.signal }, () => {
        if (isGivenUp) return undefined
        granted()
        return new Promise<void>((release) => {
          giveUp = release
        })
      })
      .catch(() => {
        if (!isGivenUp) lost()
      })
    return () => {
      isGivenUp = true
      giveUp()
    }
  }
})

const channelNamed = (name: string): TabChannel => {
  const channel = new BroadcastChannel(name)
  return {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has none: it is of this origin
    post: (message) => channel.postMessage(message),
    listen: (onMessage) => {
      channel.addEventListener("message", ({ data }: MessageEvent<unknown>) => onMessage(data))
      return () => channel.close()
    }
  }
}

/**
 * The path of this module's file, which has a digest in its name: after an update of the service, tabs with the old page do not share a stream
 * with those of the new one, because their messages may differ.
 */
const BUILD = new URL(import.meta.url).pathname

/** Browsers have locks on pages of HTTPS and of this device. */
const tabsOf = (session: ConsoleSessionId) => {
  if (!("locks" in navigator) || typeof BroadcastChannel === "undefined") return undefined
  const name = `countersign.inbox ${BUILD} ${session}`
  return { lock: lockNamed(name), channel: channelNamed(name) }
}

const listeners = new Set<Omit<SharedListener, "count">>()
let current: SharedStream | undefined

const everyListener: SharedListener = {
  opened: () => listeners.forEach(({ opened }) => opened()),
  approval: (approval) => listeners.forEach((listener) => listener.approval(approval)),
  resync: () => listeners.forEach(({ resync }) => resync()),
  broken: (refused) => listeners.forEach(({ broken }) => broken(refused)),
  count: (count) => registry.set(pendingCountAtom, count)
}

/** Follows the changes of approvals while the session lasts. Returns the function that stops. */
export const followInbox = (session: ConsoleSessionId): (() => void) => {
  const stream = Effect.runSync(
    makeSharedStream(
      {
        connect: connectTo(session),
        isStillSignedIn,
        isHidden: () => document.hidden,
        randomId: () => `${performance.timeOrigin} ${performance.now()} ${Math.random()}`,
        count: consoleClient.inbox.count({}),
        tabs: tabsOf(session)
      },
      everyListener
    )
  )
  current = stream
  const events = [
    ["visibilitychange", document, stream.check],
    ["online", window, stream.check],
    ["focus", window, stream.check],
    ["freeze", document, stream.freeze],
    ["pagehide", window, stream.freeze],
    ["resume", document, stream.resume],
    ["pageshow", window, stream.resume]
  ] as const
  for (const [type, target, act] of events) target.addEventListener(type, act)
  return () => {
    for (const [type, target, act] of events) target.removeEventListener(type, act)
    stream.notifyEnded()
    stream.close()
    if (current === stream) current = undefined
    registry.set(pendingCountAtom, undefined)
  }
}

/** Subscribes to changes of approvals. Returns the function that ends the subscription. */
export const subscribeToInbox = (listener: Omit<SharedListener, "count">): (() => void) => {
  listeners.add(listener)
  const status = current?.status()
  if (status === "open") listener.opened()
  if (status === "broken") listener.broken(false)
  return () => void listeners.delete(listener)
}

/** Whether this tab is the leader: it keeps the stream of its session, and shows the notifications. */
export const isLeader = (): boolean => current?.isLeader() ?? false

/** Whether a tab of the session is visible. */
export const hasVisibleTab: Effect.Effect<boolean> = Effect.suspend(
  () => current?.hasVisibleTab ?? Effect.succeed(!document.hidden)
)
