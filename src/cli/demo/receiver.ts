/**
 * The demo's receiver, a process of its own: it is told the secret by its parent, and tells it where it listens and what it got.
 * Ends with its parent.
 */
import type { AddressInfo } from "node:net"
import { makeReceiver, type ReceivedDelivery } from "../receiver.ts"

/** What the receiver says. */
export type FromReceiver =
  | { readonly kind: "ready"; readonly port: number }
  | { readonly kind: "received"; readonly received: ReceivedDelivery }

const say = (message: FromReceiver) => process.send?.(message)

let secret = "whsec_unset"

const server = makeReceiver({
  secret: () => secret,
  onDelivery: (received) => say({ kind: "received", received })
})

process.on("message", (message) => {
  if (typeof message === "object" && message !== null && "secret" in message) {
    secret = String(message.secret)
    say({ kind: "ready", port: portOf(server.address()) })
  }
})
process.on("disconnect", () => process.exit())
// The parent ends this process; a Ctrl-C in the terminal reaches both, and the parent still has to clean up through it.
process.on("SIGINT", () => {})

const portOf = (address: AddressInfo | string | null): number =>
  typeof address === "object" && address !== null ? address.port : 0

server.listen(0, "127.0.0.1", () => say({ kind: "ready", port: portOf(server.address()) }))
