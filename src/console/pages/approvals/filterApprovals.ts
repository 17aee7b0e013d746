/** The approvals of the inbox that are listed: which part, matching which words, in which groups. */
import { DateTime, Schema, SchemaTransformation } from "effect"
import type { ConsoleSession, InboxApproval } from "../../../api/Console.ts"
import { findObstacle } from "../../state/findObstacle.ts"
import { defineQuery, QueryText } from "../../state/queryState.ts"
import { type Amount, amountOf } from "./amountOf.ts"

/** `mine`: approvals that the signed-in key can approve. `admins`: escalated ones. */
export const InboxPart = Schema.Literals(["mine", "all", "admins"])
export type InboxPart = typeof InboxPart.Type

/** What approvals are grouped by. */
export const InboxGroup = Schema.Literals(["tool", "session"])
export type InboxGroup = typeof InboxGroup.Type

/** The order of the list, besides by deadline. */
export const InboxOrder = Schema.Literals(["newest", "oldest", "tool", "amount"])
export type InboxOrder = typeof InboxOrder.Type

/** A fact that rows of the list can show besides the effect of the step, in the order in which they are named. */
export const InboxColumn = Schema.Literals(["amount", "session", "requester", "tool", "age", "due"])
export type InboxColumn = typeof InboxColumn.Type

/** The facts that rows show unless the address names others. */
export const DEFAULT_COLUMNS: ReadonlyArray<InboxColumn> = ["session", "requester", "tool", "age", "due"]

/** Columns in one text, such as `amount,due`. */
const InboxColumns = Schema.String.pipe(
  Schema.decodeTo(
    Schema.Array(Schema.String),
    SchemaTransformation.transform({
      decode: (text): ReadonlyArray<string> => (text === "" ? [] : text.split(",")),
      encode: (columns: ReadonlyArray<string>) => columns.join(",")
    })
  ),
  Schema.decodeTo(
    Schema.Array(InboxColumn),
    SchemaTransformation.passthroughSupertype<ReadonlyArray<InboxColumn>, ReadonlyArray<string>>()
  )
)

/** The state of the approvals page in its address. */
export const inboxQuery = defineQuery({
  tab: Schema.Literals(["closed"]),
  show: InboxPart,
  text: QueryText,
  group: InboxGroup,
  sort: InboxOrder,
  columns: InboxColumns
})

type Reader = Pick<ConsoleSession, "groups" | "key" | "scopes">

const isInPart = (approval: InboxApproval, part: InboxPart, session: Reader): boolean => {
  if (part === "all") return true
  return part === "admins" ? approval.stage === "admin" : findObstacle(approval, session) === undefined
}

/** The words of approvals, in small letters. An approval is immutable, so they are made once. */
const searched = new WeakMap<InboxApproval, string>()

const textOf = (approval: InboxApproval): string => {
  const known = searched.get(approval)
  if (known !== undefined) return known
  const { line } = approval
  const text = [
    approval.tool,
    approval.action_class,
    approval.step_id,
    line?.rule_summary,
    line?.agent_summary,
    line?.arguments,
    line?.about,
    line?.requested_by.name
  ]
    .filter((part) => part !== undefined && part !== null)
    .join("\n")
    .toLowerCase()
  searched.set(approval, text)
  return text
}

/** Whether a word is in the texts of an approval, or begins one of its IDs. */
const hasWord = (approval: InboxApproval, word: string): boolean =>
  textOf(approval).includes(word) ||
  approval.approval_id.startsWith(word) ||
  approval.session_id.startsWith(word)

/** How many approvals each part has. */
export const countParts = (
  pending: ReadonlyArray<InboxApproval>,
  session: Reader
): Readonly<Record<InboxPart, number>> => {
  const counts = { mine: 0, all: pending.length, admins: 0 }
  for (const approval of pending) {
    if (isInPart(approval, "mine", session)) counts.mine++
    if (isInPart(approval, "admins", session)) counts.admins++
  }
  return counts
}

const requested = ({ requested_at }: InboxApproval): number => DateTime.toEpochMillis(requested_at)

/** The amount of the rule's summary; an approval is immutable, so it is found once. Undefined: there is none. */
export const summaryAmount = (approval: InboxApproval): Amount | undefined => {
  const known = amounts.get(approval)
  if (known !== undefined) return known.amount
  const summary = approval.line?.rule_summary
  const amount = typeof summary === "string" ? amountOf(summary) : undefined
  amounts.set(approval, { amount })
  return amount
}
const amounts = new WeakMap<InboxApproval, { readonly amount: Amount | undefined }>()

/** Approvals without an amount come last. */
const valueOf = (approval: InboxApproval): number =>
  summaryAmount(approval)?.value ?? Number.NEGATIVE_INFINITY

const orders: Readonly<Record<InboxOrder, (a: InboxApproval, b: InboxApproval) => number>> = {
  newest: (a, b) => requested(b) - requested(a),
  oldest: (a, b) => requested(a) - requested(b),
  tool: (a, b) => (a.tool < b.tool ? -1 : Number(a.tool > b.tool)),
  amount: (a, b) => (valueOf(a) > valueOf(b) ? -1 : Number(valueOf(a) < valueOf(b)))
}

/** The list's order in a word. */
export const orderName = (sort: InboxOrder | undefined): string =>
  sort === undefined ? "deadline" : sort === "tool" || sort === "amount" ? sort : "age"

const groupKey = (approval: InboxApproval, group: InboxGroup): string =>
  group === "tool" ? approval.tool : approval.session_id

/** Approvals of one tool or session that follow each other in the list. */
export interface ApprovalGroup {
  readonly name: string
  readonly approvals: ReadonlyArray<InboxApproval>
}

/** The listed approvals in groups; one group without a name if they are not grouped. The group with the nearest deadline comes first. */
export const filterApprovals = (
  pending: ReadonlyArray<InboxApproval>,
  filter: {
    readonly part: InboxPart
    readonly text: string
    readonly group: InboxGroup | undefined
    /** Undefined: by deadline, as `pending` is. */
    readonly sort: InboxOrder | undefined
  },
  session: Reader
): ReadonlyArray<ApprovalGroup> => {
  const words = filter.text
    .toLowerCase()
    .split(/\s+/u)
    .filter((word) => word !== "")
  const approvals = pending.filter(
    (approval) => isInPart(approval, filter.part, session) && words.every((word) => hasWord(approval, word))
  )
  const { group, sort } = filter
  if (sort !== undefined) approvals.sort(orders[sort])
  if (group === undefined) return [{ name: "", approvals }]
  return [...Map.groupBy(approvals, (approval) => groupKey(approval, group)).values()].map((members) => {
    const [first] = members
    const name = group === "tool" ? first?.tool : (first?.line?.about ?? first?.session_id)
    return { name: name ?? "", approvals: members }
  })
}
