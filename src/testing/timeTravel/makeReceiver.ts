import { Effect } from "effect"
import { createServer } from "node:http"
import type { ClientCalls } from "../../client/Client.ts"
import { verify } from "../../webhook/index.ts"
import type { ReceivedRequest, ReceiverScript, TestReceiver } from "../receivers.ts"

/** Starts a receiver on this machine, and creates a notification endpoint that sends to it. It stops when its scope closes. */
export const makeReceiver = Effect.fnUntraced(function* (
  admin: ClientCalls,
  { statusOf }: ReceiverScript,
  now: () => number
) {
  const requests: Array<ReceivedRequest> = []
  let deliveries = 0
  const secret = Promise.withResolvers<string>()

  const receive = async (body: Buffer, headers: NodeJS.Dict<string | Array<string>>) => {
    const record = (request: Omit<ReceivedRequest, "at">) =>
      void requests.push({ at: new Date(now()), ...request })
    const verified = await verify(body, headers, await secret.promise)
    if (!verified.ok) {
      record({ event: null, refusal: verified.reason, status: 401 })
      return { status: 401, body: undefined }
    }
    const { event } = verified
    if (event.type === "verification") return { status: 200, body: JSON.stringify(event.verification) }
    const status = statusOf(++deliveries)
    record({ event, refusal: null, status })
    return { status, body: undefined }
  }

  const server = createServer((request, response) => {
    const answer = async () => {
      const chunks: Array<Buffer> = []
      for await (const chunk of request) chunks.push(chunk)
      const { body, status } = await receive(Buffer.concat(chunks), request.headers)
      response.writeHead(status, { "content-type": "application/json" }).end(body)
    }
    // A sender that goes away in the middle of its request gets no answer.
    answer().catch(() => response.destroy())
  })
  const url = yield* Effect.acquireRelease(
    Effect.callback<string>((resume) => {
      server.on("error", (cause) => resume(Effect.die(cause)))
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(
          Effect.succeed(
            `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
          )
        )
      })
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const created = yield* Effect.orDie(admin.notificationEndpoints.create({ payload: { url } }))
  secret.resolve(created.secret)
  const receiver: TestReceiver = {
    url,
    endpoint_id: created.endpoint.id,
    secret: created.secret,
    requests,
    get events() {
      return requests.flatMap(({ event, status }) => (event !== null && status < 300 ? [event] : []))
    }
  }
  return receiver
})
