import type { PublicKey, TicketKeys } from "./ticketKeys.ts"
import type { UsedTickets } from "./usedTickets.ts"

/** The content of a ticket: one claim of one allowed step. */
export interface Ticket {
  /** The public URL of the service. */
  readonly iss: string
  readonly org_id: string
  readonly session_id: string
  readonly step_id: string
  readonly tool: string
  readonly action_class: string
  /** SHA-256 of the step's content, as 64 lowercase hex digits. */
  readonly arguments_digest: string
  /** What allowed the step: `rule`, `grant`, `model`, `human`, `timeout`. */
  readonly decision_source: string
  /** The claim's ID. */
  readonly jti: string
  /** When it was issued, in Unix seconds. */
  readonly iat: number
  /** When the claim's lease ends, in Unix seconds. */
  readonly exp: number
}

/** Why a ticket is refused. */
export type TicketRefusalReason =
  | "missing"
  | "malformed"
  | "unknown_key"
  | "invalid_signature"
  | "wrong_issuer"
  | "wrong_organization"
  | "wrong_tool"
  | "wrong_action_class"
  | "wrong_arguments"
  | "issued_in_future"
  | "expired"
  | "already_used"

export interface TicketRefusal {
  readonly ok: false
  readonly reason: TicketRefusalReason
  /** The fault, without any value of the ticket. */
  readonly message: string
}

/** The values that a ticket must match. */
export interface VerifyTicketOptions {
  readonly keys: TicketKeys
  /** The public URL of the service, as `COUNTERSIGN_PUBLIC_URL` has it. */
  readonly issuer: string
  /** The organization that this tool serves. */
  readonly orgId: string
  /** The tool's name, as the rules name it. */
  readonly tool: string
  readonly actionClass?: string | undefined
  /** The arguments that the tool is about to use, as JSON values. Leave it out if the step has no arguments; `{}` and `null` are arguments. */
  readonly arguments?: unknown
  /** Refuses the second use of a ticket. */
  readonly used: UsedTickets
  /** The current time, in milliseconds. Default `Date.now`. */
  readonly now?: (() => number) | undefined
}

/** The longest ticket, in characters: a tool's name and a step's ID have limits. */
const MAX_LENGTH = 8_192

/** Tolerated difference of the clocks, in seconds, for the time of issue. The end has none: the lease has ended. */
const CLOCK_SKEW_SECONDS = 30

const messages: Record<TicketRefusalReason, string> = {
  missing: "The request has no ticket. Claim the step, and send the claim's ticket.",
  malformed: "The ticket is malformed.",
  unknown_key: "The ticket was signed with a key that the service does not have.",
  invalid_signature: "The ticket's signature is invalid.",
  wrong_issuer: "The ticket is of another service.",
  wrong_organization: "The ticket is of another organization.",
  wrong_tool: "The ticket is for another tool.",
  wrong_action_class: "The ticket is for another class of action.",
  wrong_arguments: "The ticket is for other arguments than these.",
  issued_in_future: "The ticket was issued in the future. Check the clocks.",
  expired: "The ticket has expired. Claim the step again, if its rule permits that.",
  already_used: "The ticket was used before."
}

const refuse = (reason: TicketRefusalReason): TicketRefusal => ({
  ok: false,
  reason,
  message: messages[reason]
})

/**
 * Verifies a ticket against the arguments that the tool is about to use, and records it as used. Do not execute unless the
 * result is `ok`. Throws only if the keys cannot be fetched or `used` fails.
 */
export const verifyTicket = async (
  ticket: string | ReadonlyArray<string> | null | undefined,
  options: VerifyTicketOptions
): Promise<{ readonly ok: true; readonly ticket: Ticket } | TicketRefusal> => {
  if (ticket === undefined || ticket === null || ticket === "") return refuse("missing")
  if (typeof ticket !== "string" || ticket.length > MAX_LENGTH) return refuse("malformed")
  const [head = "", body = "", signature = "", ...more] = ticket.split(".")
  const header = more.length > 0 ? undefined : readJson(head)
  const kid = header?.["kid"]
  const bytes = fromBase64Url(signature)
  if (header?.["alg"] !== "EdDSA" || header["typ"] !== TYPE || typeof kid !== "string" || bytes === undefined)
    return refuse("malformed")
  const set = typeof options.keys === "function" ? await options.keys(kid) : options.keys
  const key = set.keys.find((one) => one.kid === kid)
  if (key === undefined) return refuse("unknown_key")
  if (!(await isSignedBy(key, `${head}.${body}`, bytes))) return refuse("invalid_signature")
  const content = readJson(body)
  if (content === undefined || !isTicket(content)) return refuse("malformed")
  const reason = await mismatch(content, options)
  if (reason !== undefined) return refuse(reason)
  // Last, so that a ticket that is refused for another reason is not used up.
  const isFirst = await options.used.use(content.jti, new Date(content.exp * 1_000))
  return isFirst ? { ok: true, ticket: content } : refuse("already_used")
}

/** The media type of a ticket, in its header: no other token of the service is accepted as a ticket. */
const TYPE = "countersign-ticket+jwt"

const mismatch = async (
  ticket: Ticket,
  { actionClass, arguments: given, issuer, now = Date.now, orgId, tool }: VerifyTicketOptions
): Promise<TicketRefusalReason | undefined> => {
  const seconds = now() / 1_000
  if (ticket.iss !== issuer.replace(/\/+$/u, "")) return "wrong_issuer"
  if (ticket.org_id !== orgId) return "wrong_organization"
  if (ticket.tool !== tool) return "wrong_tool"
  if (actionClass !== undefined && ticket.action_class !== actionClass) return "wrong_action_class"
  if (ticket.iat > seconds + CLOCK_SKEW_SECONDS) return "issued_in_future"
  if (ticket.exp <= seconds) return "expired"
  const names = [ticket.org_id, ticket.session_id, ticket.step_id, ticket.tool, ticket.action_class]
  const content = canonical(["countersign-step-v1", ...names, ...(given === undefined ? [] : [given])])
  return content !== undefined && (await sha256(content)) === ticket.arguments_digest
    ? undefined
    : "wrong_arguments"
}

const isSignedBy = async (
  key: PublicKey,
  text: string,
  signature: Uint8Array<ArrayBuffer>
): Promise<boolean> => {
  if (key.kty !== "OKP" || key.crv !== "Ed25519" || key.x === undefined) return false
  try {
    const imported = await crypto.subtle.importKey(
      "jwk",
      { kty: "OKP", crv: "Ed25519", x: key.x },
      { name: "Ed25519" },
      false,
      ["verify"]
    )
    return await crypto.subtle.verify(
      { name: "Ed25519" },
      imported,
      signature,
      new TextEncoder().encode(text)
    )
  } catch {
    return false
  }
}

const sha256 = async (text: string): Promise<string> => {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const fromBase64Url = (text: string): Uint8Array<ArrayBuffer> | undefined => {
  if (!/^[0-9A-Za-z_-]+$/u.test(text)) return undefined
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0))
  } catch {
    return undefined
  }
}

const readJson = (text: string): Fields | undefined => {
  const bytes = fromBase64Url(text)
  if (bytes === undefined) return undefined
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
    return isFields(value) ? value : undefined
  } catch {
    return undefined
  }
}

const TEXTS = [
  "iss",
  "org_id",
  "session_id",
  "step_id",
  "tool",
  "action_class",
  "arguments_digest",
  "decision_source",
  "jti"
] as const satisfies ReadonlyArray<keyof Ticket>

const isTicket = (fields: Fields): fields is Fields & Ticket =>
  TEXTS.every((name) => typeof fields[name] === "string") &&
  Number.isSafeInteger(fields["iat"]) &&
  Number.isSafeInteger(fields["exp"])

/** Arrays and objects within each other in arguments. The service accepts 64. */
const MAX_DEPTH = 500

/** The canonical text of a JSON value (RFC 8785). Undefined: it has none, or is nested too deep. */
const canonical = (value: unknown, depth = 0): string | undefined => {
  if (depth > MAX_DEPTH) return undefined
  if (value === null || typeof value === "boolean") return String(value)
  if (typeof value === "number") return Number.isFinite(value) ? JSON.stringify(value) : undefined
  if (typeof value === "string") return isWellFormed(value) ? JSON.stringify(value) : undefined
  if (Array.isArray(value)) return joined("[", value, (item) => canonical(item, depth + 1), "]")
  if (!isFields(value)) return undefined
  // Sorts by UTF-16 code units. A member that is `undefined` is not in the JSON.
  const names = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    // oxlint-disable-next-line unicorn/no-array-sort -- Node 18 has no `toSorted`
    .sort()
  const member = (name: string): string | undefined => {
    const text = canonical(value[name], depth + 1)
    return text === undefined || !isWellFormed(name) ? undefined : `${JSON.stringify(name)}:${text}`
  }
  return joined("{", names, member, "}")
}

/** Stops at the first part without a text: a value that contains itself would otherwise be read again and again. */
const joined = <Part>(
  open: string,
  parts: ReadonlyArray<Part>,
  textOf: (part: Part) => string | undefined,
  close: string
): string | undefined => {
  const texts: Array<string> = []
  for (const part of parts) {
    const text = textOf(part)
    if (text === undefined) return undefined
    texts.push(text)
  }
  return `${open}${texts.join(",")}${close}`
}

const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)
