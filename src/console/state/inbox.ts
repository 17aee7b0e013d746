/**
 * What waits for a person, as this page knows it: read page by page when it opens, then kept by the service's word of each change. A
 * stream that broke may have missed some, so everything is read again when it is back.
 */
import { DateTime, Effect, Exit, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { ApprovalSnapshot } from "../../api/SessionStream.ts"
import type { ApprovalId } from "../../domain/Ids.ts"
import { own } from "./own.ts"
import { sessionOver } from "./session.ts"

export interface InboxState {
  /** `loading`: nothing is known yet. `behind`: the stream broke, and what is shown may be old. */
  readonly phase: "loading" | "live" | "behind"
  /** In the order in which they close. */
  readonly pending: ReadonlyArray<ApprovalSnapshot>
  /** Those that closed while this page looked, newest last. */
  readonly closed: ReadonlyMap<ApprovalId, ApprovalSnapshot>
}

/** Pages that are read at most: with up to 1,000 approvals each, far more than people decide. */
const MAX_PAGES = 50

/** Closed approvals that are remembered. */
const MAX_CLOSED = 500

/** How long to wait before another try where the browser gave up. */
const REOPEN_MS = 3_000

const decode = Schema.decodeUnknownExit(Schema.fromJsonString(ApprovalSnapshot))

const byDeadline = (left: ApprovalSnapshot, right: ApprovalSnapshot): number =>
  DateTime.toEpochMillis(left.expires_at) - DateTime.toEpochMillis(right.expires_at) ||
  (left.approval_id < right.approval_id ? -1 : 1)

/** Follows the inbox until it is stopped; after the first page `show` is called at most once a frame. */
const follow = (show: (state: InboxState) => void) => {
  let pending = new Map<ApprovalId, ApprovalSnapshot>()
  const closed = new Map<ApprovalId, ApprovalSnapshot>()
  let phase: InboxState["phase"] = "loading"
  let frame: number | undefined
  let source: EventSource | undefined
  let reopening: ReturnType<typeof setTimeout> | undefined
  let stopped = false
  /** What came while everything is read again: newer than what the reading brings. */
  let meanwhile: Map<ApprovalId, ApprovalSnapshot> | undefined

  const showNow = () => {
    frame = undefined
    show({ phase, pending: [...pending.values()].toSorted(byDeadline), closed: new Map(closed) })
  }

  const changed = () => {
    if (!stopped) frame ??= requestAnimationFrame(showNow)
  }

  const put = (into: Map<ApprovalId, ApprovalSnapshot>, approval: ApprovalSnapshot) => {
    if (approval.status === "pending") {
      // What is closed stays closed, whatever comes late.
      if (!closed.has(approval.approval_id)) into.set(approval.approval_id, approval)
      return
    }
    into.delete(approval.approval_id)
    closed.delete(approval.approval_id)
    closed.set(approval.approval_id, approval)
    const [oldest] = closed.keys()
    if (closed.size > MAX_CLOSED && oldest !== undefined) closed.delete(oldest)
  }

  const apply = (approval: ApprovalSnapshot) => {
    put(pending, approval)
    meanwhile?.set(approval.approval_id, approval)
    changed()
  }

  const read = Effect.gen(function* () {
    const found = new Map<ApprovalId, ApprovalSnapshot>()
    const first = phase === "loading"
    meanwhile = new Map()
    let last: ApprovalSnapshot | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const { approvals, more } = yield* own.inbox.list({
        query: last === undefined ? {} : { after: last.expires_at, after_id: last.approval_id }
      })
      for (const approval of approvals) put(found, approval)
      // The first page is shown at once: it is what closes first.
      if (first && page === 0) {
        phase = "live"
        for (const approval of meanwhile.values()) put(found, approval)
        pending = new Map(found)
        if (!stopped) showNow()
      }
      last = approvals.at(-1)
      if (!more || last === undefined) break
    }
    for (const approval of meanwhile.values()) put(found, approval)
    meanwhile = undefined
    pending = found
    phase = "live"
    changed()
  }).pipe(
    Effect.catch(() =>
      Effect.sync(() => {
        phase = "behind"
        changed()
      })
    )
  )

  const reopen = Effect.map(Effect.exit(own.session.get({})), (exit) => {
    if (stopped) return
    if (Exit.isSuccess(exit) && exit.value === null) sessionOver()
    else open()
  })

  const open = () => {
    source = new EventSource(`${CONSOLE_PATH}/inbox/stream`)
    // What happened before the stream began is in what is read after.
    source.addEventListener("open", () => void Effect.runPromise(read))
    source.addEventListener("resync", () => void Effect.runPromise(read))
    source.addEventListener("approval", ({ data }: MessageEvent<unknown>) => {
      const approval = decode(data)
      if (Exit.isSuccess(approval)) apply(approval.value)
    })
    source.addEventListener("error", () => {
      phase = "behind"
      changed()
      // The browser connects again by itself, save where the service refused: then who is signed in is asked, which shows why.
      if (source?.readyState !== EventSource.CLOSED) return
      reopening = setTimeout(() => void Effect.runPromise(reopen), REOPEN_MS)
    })
  }
  open()

  return {
    apply,
    stop: () => {
      stopped = true
      source?.close()
      clearTimeout(reopening)
      if (frame !== undefined) cancelAnimationFrame(frame)
    }
  }
}

const nothing: InboxState = { phase: "loading", pending: [], closed: new Map() }

let following: ReturnType<typeof follow> | undefined

/** The inbox, followed as long as something shows it. */
export const inboxAtom = Atom.make((get): InboxState => {
  const mine = follow((state) => get.setSelf(state))
  following = mine
  get.addFinalizer(mine.stop)
  return nothing
})

/** An approval as an answer of the service shows it: shown before the stream says the same. */
export const applyApproval = (approval: ApprovalSnapshot): void => following?.apply(approval)
