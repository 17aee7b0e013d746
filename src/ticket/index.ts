/**
 * `countersign/ticket`: for tools that execute only steps that Countersign has allowed. A claim of an allowed step gets a ticket, which the
 * tool verifies by itself, without a request to the service, against the arguments that it is about to use. Uses Web Crypto only, without
 * dependencies; runs on Node 18 and newer, Deno, Bun and Workers.
 *
 * ```ts
 * import { memoryUsedTickets, remoteKeys, verifyTicket } from "countersign/ticket"
 *
 * const keys = remoteKeys("https://countersign.example.com")
 * const used = memoryUsedTickets() // a table with a unique key in production
 *
 * const result = await verifyTicket(request.headers["x-countersign-ticket"], {
 *   keys,
 *   issuer: "https://countersign.example.com",
 *   orgId: "org_…",
 *   tool: "payments.refund",
 *   arguments: request.body,
 *   used
 * })
 * if (!result.ok) return response.status(403).json({ reason: result.reason, message: result.message })
 * ```
 */
export { type KeySet, type PublicKey, remoteKeys, type TicketKeys } from "./ticketKeys.ts"
export { memoryUsedTickets, type UsedTickets } from "./usedTickets.ts"
export {
  type Ticket,
  type TicketRefusal,
  type TicketRefusalReason,
  verifyTicket,
  type VerifyTicketOptions
} from "./verifyTicket.ts"
