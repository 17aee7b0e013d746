import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { StepId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"
import { verify } from "../../src/webhook/index.ts"
import { Browser, inBrowser, signedIn } from "../support/browser.ts"
import { service } from "../support/service.ts"

// One attempt a delivery: what fails is failed at once, and can be replayed.
const environment = Layer.provideMerge(
  Browser.layer,
  service({ environment: { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0" } })
)

/** What a receiver was sent. */
interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver on loopback, which answers as it is told to. */
const receiver = Effect.acquireRelease(
  Effect.promise(async () => {
    const received: Array<Received> = []
    let waiting: (() => void) | undefined
    const state = { status: 200 }
    const server = createServer((request, response) => {
      let body = ""
      request.setEncoding("utf8").on("data", (more: string) => (body += more))
      request.on("end", () => {
        received.push({ headers: request.headers, body })
        response.writeHead(state.status).end()
        waiting?.()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    /** Resolves once this many came. */
    const count = async (wanted: number) => {
      while (received.length < wanted) await new Promise<void>((resolve) => (waiting = resolve))
    }
    return { url: `http://127.0.0.1:${port}/hook`, received, state, count, server }
  }),
  ({ server }) => Effect.sync(() => server.close())
)

layer(environment, { excludeTestServices: true, timeout: "120 seconds" })("endpoints in a browser", (it) => {
  const test = inBrowser(it)

  test(
    "an admin creates one, keeps its secret, sees a delivery arrive, and replays one that failed",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const hook = yield* receiver
        const { faults, page } = yield* signedIn({ preset: "admin", name: "Grace" }, "/endpoints")
        const secret = yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "New endpoint" }).click()
          await page.getByLabel("Address").fill(hook.url)
          await page.getByRole("button", { name: "Create the endpoint" }).click()
          const shown = page.getByRole("dialog", { name: "The signing secret" })
          const text = await shown.locator("code").innerText()
          await shown.getByRole("button", { name: "It is kept" }).click()
          await page.getByText("Nothing was sent yet").waitFor()
          assert.notInclude(await page.content(), text)
          return text
        })
        // A real approval's event, signed with the secret that the page showed.
        const agent = yield* client({ preset: "runtime" })
        const { session_id } = yield* agent.sessions.create({})
        hook.state.status = 500
        yield* agent.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("one"), tool: "mail.send", action_class: "write" }
        })
        yield* Effect.promise(async () => {
          await hook.count(1)
          const row = page.getByRole("listitem").filter({ hasText: "approval.requested" })
          await row.getByText("failed").waitFor()
          hook.state.status = 200
          await row.getByRole("button", { name: "Replay" }).click()
          await hook.count(2)
          await row.getByText("delivered").waitFor()
          await row.getByRole("button", { name: "Attempts" }).click()
          await row.getByRole("cell", { name: "500" }).waitFor()
          await row.getByRole("cell", { name: "200" }).waitFor()
        })
        const [first, second] = hook.received
        assert.strictEqual(first?.body, second?.body)
        const checked = yield* Effect.promise(() => verify(second!.body, second!.headers, secret))
        assert.strictEqual(checked.ok && checked.event.type, "approval.requested")
        assert.deepStrictEqual(faults, [])
      }).pipe(Effect.scoped, Effect.orDie),
    60_000
  )
})
