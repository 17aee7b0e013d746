/** Receives webhooks in an Express app. Mount the handler before `express.json()`: the signature covers the raw body. */
import { memorySeen, nodeHandler } from "countersign/webhook"
import express from "express"

const secret = process.env["COUNTERSIGN_SECRET"]
if (secret === undefined) throw new Error("Set COUNTERSIGN_SECRET to the endpoint's signing secret.")
const port = Number(process.env["RECEIVER_PORT"] ?? 4000)

const app = express()
app.post(
  "/countersign",
  nodeHandler({
    secret,
    // One process only. With several, keep the handled ids in your database: see `EventClaims`.
    seen: memorySeen(),
    // The sender waits five seconds. Save the event and return; do the work later.
    onEvent: (event) => console.log(`${event.type} ${event.approval?.step_id ?? ""}`),
    onRefused: ({ reason }) => console.warn(`refused: ${reason}`)
  })
)
app.use(express.json())
app.listen(port, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${port}/countersign`))
