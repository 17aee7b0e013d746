/** Receives webhooks in a Hono app. The same handler runs on Cloudflare Workers, Deno and Bun. */
import { serve } from "@hono/node-server"
import { handler, memorySeen } from "countersign/webhook"
import { Hono } from "hono"

const secret = process.env["COUNTERSIGN_SECRET"]
if (secret === undefined) throw new Error("Set COUNTERSIGN_SECRET to the endpoint's signing secret.")
const port = Number(process.env["RECEIVER_PORT"] ?? 4000)

const receive = handler({
  secret,
  // One process only. With several, keep the handled ids in your database: see `EventClaims`.
  seen: memorySeen(),
  // The sender waits five seconds. Save the event and return; do the work later.
  onEvent: (event) => console.log(`${event.type} ${event.approval?.step_id ?? ""}`),
  onRefused: ({ reason }) => console.warn(`refused: ${reason}`)
})

const app = new Hono()
app.post("/countersign", ({ req }) => receive(req.raw))
serve({ fetch: app.fetch, port, hostname: "127.0.0.1" }, () => {
  console.log(`listening on http://127.0.0.1:${port}/countersign`)
})
