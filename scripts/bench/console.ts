/**
 * The console in a real browser, against the service as a process of its own: what its script weighs; how soon the first page can be used
 * with a cold cache, for who has to sign in and for who is signed in; how an inbox of ten thousand scrolls; and how soon a decision shows.
 * The browser and the service share the machine: what another program takes from it is in the figures.
 */
import { Effect, ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core"
import * as Database from "../../src/server/store/Database.ts"
import { line, machine, median, quantile } from "./measure.ts"
import { startService, startStore } from "./service.ts"

const pending = 10_000
const coldRounds = 15
const decisions = 30
const scrollMillis = 4_000

const program = process.env["COUNTERSIGN_TEST_BROWSER"] ?? "/usr/bin/chromium"
const out = (text: string): void => void process.stdout.write(`${text}\n`)

/** Approvals that wait, as the service would have written them, each with its session; they close one after the other in a day. */
const seed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly org_id: string; readonly key_id: string }>`
    SELECT org_id, key_id FROM api_keys LIMIT 1
  `
  const { key_id = "", org_id = "" } = row ?? {}
  yield* sql`
    INSERT INTO agent_sessions (org_id, session_id, trace_id, metadata, created_at, created_by_id, created_by_name)
    SELECT ${org_id}, 'ses_' || md5('s' || n), md5(n::text), '{}', now(), ${key_id}, 'bench'
    FROM generate_series(1, ${pending}::int) AS n
  `
  yield* sql`
    INSERT INTO approvals (
      org_id, approval_id, session_id, step_id, tool, action_class, arguments, arguments_digest, status, stage, requested_at,
      requested_by_id, review_deadline_at, expires_at, expiring_seconds, timeout_action, next_due_at, self_approval
    )
    SELECT
      ${org_id}, 'apr_' || md5('a' || n), 'ses_' || md5('s' || n), 'step-' || n, 'payments.refund-' || n, 'write',
      '{"order":"4711","amount":25}', repeat('0', 64), 'pending', 'reviewer', now() - interval '1 minute', ${key_id},
      now() + interval '1 hour' + n * interval '1 second', now() + interval '1 hour' + n * interval '1 second', 60, 'reject',
      now() + interval '1 hour' + n * interval '1 second' - interval '1 minute', true
    FROM generate_series(1, ${pending}::int) AS n
  `
  yield* sql`ANALYZE`
})

/** One visit, as the browser saw it. */
interface Visit {
  /** From asking for the address until it could be used, in milliseconds. */
  readonly usable: number
  /** The script that was loaded until then, in KB as it was sent. */
  readonly script: number
}

/** Notes in each page when what it is waited for is first there to be used. */
const noteWhen = (context: BrowserContext, selector: string) =>
  context.addInitScript(`
    window.usable = new Promise((resolve) => {
      const watching = new MutationObserver(() => {
        if (document.querySelector(${JSON.stringify(selector)}) === null) return
        watching.disconnect()
        // Painted, and the page's program at rest: what is pressed now is answered.
        requestAnimationFrame(() => setTimeout(() => {
          const scripts = performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js"))
          const bytes = scripts.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
          resolve({ usable: performance.now(), script: bytes / 1_000 })
        }))
      })
      watching.observe(document, { childList: true, subtree: true })
    })
  `)

type State = Awaited<ReturnType<BrowserContext["storageState"]>>

/** One visit with nothing kept from another: a window of its own. */
const visit = async (browser: Browser, url: string, selector: string, state?: State): Promise<Visit> => {
  const context = await browser.newContext(state === undefined ? {} : { storageState: state })
  try {
    await noteWhen(context, selector)
    const page = await context.newPage()
    await page.goto(url)
    return await page.evaluate<Visit>("window.usable")
  } finally {
    await context.close()
  }
}

const signIn = async (browser: Browser, origin: string, key: string): Promise<State> => {
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(`${origin}/console`)
  await page.getByLabel("API key").fill(key)
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.getByRole("option").first().waitFor()
  const state = await context.storageState()
  await context.close()
  return state
}

/** Scrolls the whole list back and forth, as fast as a hand on a bar does; answers with how long each frame took. */
const scroll = async (page: Page): Promise<ReadonlyArray<number>> => {
  const frames: unknown = await page.evaluate(`new Promise((resolve) => {
    const list = document.querySelector('[role=listbox]')
    const frames = []
    const begin = performance.now()
    let last = begin
    const step = (now) => {
      frames.push(now - last)
      last = now
      if (now - begin > ${scrollMillis}) return resolve(frames.slice(1))
      const part = (now - begin) / ${scrollMillis}
      list.scrollTop = (0.5 - 0.5 * Math.cos(part * 4 * Math.PI)) * (list.scrollHeight - list.clientHeight)
      requestAnimationFrame(step)
    }
    requestAnimationFrame(step)
  })`)
  return Array.isArray(frames) ? frames.map(Number) : []
}

/** From the key that decides until the page shows who did, in milliseconds. */
const decide = async (page: Page): Promise<number> => {
  await page.keyboard.press("j")
  await page.getByRole("button", { name: "Approve" }).waitFor()
  await page.keyboard.press("a")
  await page.getByLabel("Comment").waitFor()
  await page.evaluate(`
    window.decided = new Promise((resolve) => addEventListener("keydown", () => {
      const pressed = performance.now()
      const watching = new MutationObserver(() => {
        if (!document.querySelector(".approval")?.innerText.includes("Approved by")) return
        watching.disconnect()
        requestAnimationFrame(() => resolve(performance.now() - pressed))
      })
      watching.observe(document, { childList: true, subtree: true, characterData: true })
    }, { once: true, capture: true }))
    undefined
  `)
  await page.keyboard.press("Enter")
  return await page.evaluate<number>("window.decided")
}

spawnSync(process.execPath, [fileURLToPath(new URL("../setup.js", import.meta.url))], { stdio: "inherit" })
const store = await startStore()
const url = await store.database("bench_console")
const { child: service, ended, key, port } = await startService(url)
const origin = `http://127.0.0.1:${port}`
const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 1 }))
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] })
try {
  out(`\nThe console; ${machine()}, Chromium ${browser.version()}\n`)
  const veryFirst = await visit(browser, `${origin}/console`, "input[name=key]")
  out(`the very first visit after a start: ${veryFirst.usable.toFixed(0)} ms`)
  const visits = async (what: string, selector: string, state?: State) => {
    const all: Array<Visit> = []
    for (let round = 0; round < coldRounds; round++)
      all.push(await visit(browser, `${origin}/console`, selector, state))
    out(
      line(
        `${what}, cold cache (goal: 1000)`,
        all.map(({ usable }) => usable),
        "ms"
      )
    )
    out(
      line(
        "  its script, as sent (goal: 250)",
        all.map(({ script }) => script),
        "KB"
      )
    )
  }
  await visits("to sign in", "input[name=key]")
  await database.runPromise(seed)
  const state = await signIn(browser, origin, key)
  await visits(`${pending} approvals`, "[role=option]", state)
  const context = await browser.newContext({ storageState: state })
  const page = await context.newPage()
  await page.goto(`${origin}/console/approvals`)
  await page.getByText(`Waiting ${pending.toLocaleString("en")}`).waitFor()
  const frames = await scroll(page)
  out(
    `scrolling ${pending}: a frame takes ${median(frames).toFixed(1)} ms, 99 of 100 within ${quantile(frames, 0.99).toFixed(1)}, the longest ${Math.max(...frames).toFixed(1)}`
  )
  const decided: Array<number> = []
  for (let count = 0; count < decisions; count++) decided.push(await decide(page))
  out(line("a decision shows after (goal: 200)", decided, "ms"))
} finally {
  await browser.close()
  service.kill("SIGTERM")
  await ended
  await database.dispose()
  await store.dispose()
}
