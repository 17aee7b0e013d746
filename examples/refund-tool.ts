/**
 * A tool that executes only calls that Countersign has allowed. Each call needs the ticket of its claim, for exactly these
 * arguments, and is executed once. The agent's credentials alone are not enough.
 */
import { serve } from "@hono/node-server"
import { memoryUsedTickets, remoteKeys, verifyTicket } from "countersign/ticket"
import { Hono } from "hono"

const orgId = process.env["COUNTERSIGN_ORG"]
if (orgId === undefined) throw new Error("Set COUNTERSIGN_ORG to the ID of your organization.")
const issuer = process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080"
const port = Number(process.env["TOOL_PORT"] ?? 4003)

// Fetched once, and again when the service has a new key.
const keys = remoteKeys(issuer)
// One process only. With several, keep the used tickets in your database, under a unique key.
const used = memoryUsedTickets()

const app = new Hono()
app.post("/refunds", async (context) => {
  const refund: unknown = await context.req.json()
  const ticket = await verifyTicket(context.req.header("x-countersign-ticket"), {
    keys,
    issuer,
    orgId,
    tool: "payments.refund",
    arguments: refund,
    used
  })
  if (!ticket.ok) return context.json({ refused: ticket.reason }, 403)
  console.log(`refunded, claim ${ticket.ticket.jti}`)
  return context.json({ refunded: true })
})
serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, () => {
  console.log(`listening on http://127.0.0.1:${port}/refunds`)
})
