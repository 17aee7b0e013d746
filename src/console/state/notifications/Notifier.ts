/**
 * Decides which approvals a browser notifies of: new ones that the key can approve, while no tab of the console is visible. Several at once
 * are one notification, and a notification closes once its approvals are decided.
 */
import { DateTime, Duration, Effect, type Fiber } from "effect"
import type { InboxApproval } from "../../../api/Console.ts"
import type { ApprovalId } from "../../../domain/Ids.ts"
import { plainLine } from "../../ui/plainLine.ts"

/** The content of a notification. */
export interface NotificationContent {
  readonly title: string
  readonly body: string
  /** A notification replaces one with the same tag. */
  readonly tag: string
  /** The page that a click opens. */
  readonly path: string
}

/** Dependencies of the notifier. */
export interface NotifierPort {
  /** Whether this tab is the one that notifies, and its user wants it. */
  readonly isEnabled: () => boolean
  readonly canApprove: (approval: InboxApproval) => boolean
  readonly hasVisibleTab: Effect.Effect<boolean>
  /** The service's time, in epoch milliseconds. */
  readonly now: () => number
  /** Shows a notification; returns the function that closes it. */
  readonly show: (content: NotificationContent) => () => void
}

export interface Notifier {
  /** A changed approval. */
  readonly approval: (approval: InboxApproval) => void
  readonly closeAll: () => void
}

/** How long new approvals are gathered for one notification. */
const GATHER = Duration.seconds(1)

/** The most notifications at a time. One more replaces them by one for all. */
const MAX_SHOWN = 3

/** Older approvals are not new: a change of theirs does not notify. */
const MAX_AGE = Duration.minutes(5)

/** The most approvals that are remembered, so that each notifies once. */
const MAX_REMEMBERED = 1_000

/** The most approvals that a notification for several lists. */
const MAX_LISTED = 3

const MAX_LINE = 120

const BUNDLE_TAG = "countersign.approvals"

/** Creates a notifier. */
export const makeNotifier = Effect.fnUntraced(function* (port: NotifierPort) {
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const remembered = new Set<string>()
  const gathered = new Map<ApprovalId, InboxApproval>()
  const shown = new Set<{ readonly approvals: Map<ApprovalId, InboxApproval>; readonly close: () => void }>()
  let gathering: Fiber.Fiber<void> | undefined

  /** Whether this is the first time that the approval, in its stage, is seen. */
  const isFirst = ({ approval_id, stage }: InboxApproval): boolean => {
    const key = `${approval_id} ${stage}`
    if (remembered.has(key)) return false
    remembered.add(key)
    const [oldest] = remembered
    if (remembered.size > MAX_REMEMBERED && oldest !== undefined) remembered.delete(oldest)
    return true
  }

  const isRecent = ({ escalated_at, requested_at }: InboxApproval): boolean =>
    port.now() - DateTime.toEpochMillis(escalated_at ?? requested_at) < Duration.toMillis(MAX_AGE)

  const closeAll = () => {
    for (const { close } of shown) close()
    shown.clear()
  }

  const show = (approvals: ReadonlyMap<ApprovalId, InboxApproval>, content: NotificationContent) =>
    shown.add({ approvals: new Map(approvals), close: port.show(content) })

  const flush = Effect.gen(function* () {
    const isSeen = yield* port.hasVisibleTab
    const fresh = new Map(gathered)
    gathered.clear()
    if (isSeen || fresh.size === 0 || !port.isEnabled()) return
    const [first] = fresh.values()
    if (fresh.size === 1 && shown.size < MAX_SHOWN && first !== undefined) {
      show(fresh, describeOne(first))
      return
    }
    const all = new Map([...[...shown].flatMap(({ approvals }) => [...approvals]), ...fresh])
    closeAll()
    show(all, describeSeveral([...all.values()]))
  })

  const notifier: Notifier = {
    approval: (approval) => {
      const { approval_id, status } = approval
      if (status !== "pending") {
        gathered.delete(approval_id)
        for (const one of shown) {
          if (!one.approvals.delete(approval_id) || one.approvals.size > 0) continue
          one.close()
          shown.delete(one)
        }
        return
      }
      if (!isFirst(approval) || !isRecent(approval) || !port.isEnabled() || !port.canApprove(approval)) return
      gathered.set(approval_id, approval)
      if (gathering !== undefined) return
      gathering = fork(Effect.andThen(Effect.sleep(GATHER), flush))
      gathering.addObserver(() => {
        gathering = undefined
      })
    },
    closeAll
  }
  return notifier
})

/** The rule's sentence, which contains only the arguments that its template names. The agent's summary is left out. */
const sentenceOf = ({ line, tool }: InboxApproval): string => plainLine(line?.rule_summary ?? tool, MAX_LINE)

const describeOne = (approval: InboxApproval): NotificationContent => ({
  title: `Approval: ${plainLine(approval.tool, MAX_LINE)}`,
  body:
    approval.line?.rule_summary === undefined || approval.line.rule_summary === null
      ? "An agent is waiting for approval to use this tool."
      : sentenceOf(approval),
  tag: approval.approval_id,
  path: `/approvals/${approval.approval_id}`
})

const describeSeveral = (approvals: ReadonlyArray<InboxApproval>): NotificationContent => {
  const rest = approvals.length - MAX_LISTED
  return {
    title: `${approvals.length} approvals are waiting`,
    body: [...approvals.slice(0, MAX_LISTED).map(sentenceOf), ...(rest > 0 ? [`and ${rest} more`] : [])].join(
      "\n"
    ),
    tag: BUNDLE_TAG,
    path: "/approvals"
  }
}
