/** The demo's receiver process. The parent sends the secret; the receiver sends its port and each delivery, and exits with its parent. */
import type { AddressInfo } from "node:net"
import { makeReceiver, type ReceivedDelivery } from "../receiver.ts"

/** A message of the receiver process. */
export type ReceiverMessage =
  | { readonly kind: "ready"; readonly port: number }
  | { readonly kind: "received"; readonly received: ReceivedDelivery }

const sendToParent = (message: ReceiverMessage) => process.send?.(message)

let secret = "whsec_unset"

const server = makeReceiver({
  secret: () => secret,
  onDelivery: (received) => sendToParent({ kind: "received", received })
})

process.on("message", (message) => {
  if (typeof message === "object" && message !== null && "secret" in message) {
    secret = String(message.secret)
    sendToParent({ kind: "ready", port: portOf(server.address()) })
  }
})
process.on("disconnect", () => process.exit())
// The parent ends this process. Ctrl-C in a terminal reaches both, and the parent still needs the receiver to clean up.
process.on("SIGINT", () => {})

const portOf = (address: AddressInfo | string | null): number =>
  typeof address === "object" && address !== null ? address.port : 0

server.listen(0, "127.0.0.1", () => sendToParent({ kind: "ready", port: portOf(server.address()) }))
