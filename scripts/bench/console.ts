/**
 * The console in a real browser, against the service in a process of its own: size of its script; time until a page is usable with a cold
 * cache: signed out, the overview, and an inbox of 5,000; time from a key press in the inbox's filter until the list has changed; frame
 * times while scrolling; time until a decision shows; listeners, nodes and memory of a tab over a thousand decisions.
 * The browser and the service share the machine, so the figures include whatever else runs on it.
 */
import { Effect, ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { spawnSync } from "node:child_process"
import { cpus, loadavg } from "node:os"
import { fileURLToPath } from "node:url"
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core"
import * as Database from "../../src/server/store/Database.ts"
import { atMost, line, machine, median, quantile } from "./measure.ts"
import { startService, startStore } from "./service.ts"

const pending = 5_000
const coldRounds = 15
const decisions = 30
/** The decisions of one tab after which its listeners are counted. */
const leakAfter = [100, 400, 700, 1_000]
const scrollMillis = 4_000

const program = process.env["COUNTERSIGN_TEST_BROWSER"] ?? "/usr/bin/chromium"
const out = (text: string): void => void process.stdout.write(`${text}\n`)

/** Writes pending approvals with consecutive deadlines, each with its session, as the service would have written them. */
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

/** Figures of one visit, taken in the browser. */
interface Visit {
  /** Milliseconds from navigation until the page is usable. */
  readonly usable: number
  /** KB of JavaScript loaded until then, compressed as sent. */
  readonly script: number
}

/** Records in each page when the element at `selector` first appears and the page can handle input. */
const noteWhen = (context: BrowserContext, selector: string) =>
  context.addInitScript(`
    window.usable = new Promise((resolve) => {
      const watching = new MutationObserver(() => {
        if (document.querySelector(${JSON.stringify(selector)}) === null) return
        watching.disconnect()
        // After the paint and with an idle main thread: input is handled from here on.
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

/** One visit in a fresh browser context, with an empty cache. */
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
  await page.locator("#content").waitFor()
  const state = await context.storageState()
  await context.close()
  return state
}

/** Scrolls the whole list back and forth, as fast as a dragged scroll bar, and returns the duration of each frame. */
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

/** Types a number into the filter, and returns the milliseconds from each key press until the list has changed and is painted. */
const filter = async (page: Page, number: string): Promise<ReadonlyArray<number>> => {
  const field = page.getByRole("searchbox").first()
  await field.fill("refund-")
  await field.focus()
  const times: Array<number> = []
  for (const digit of number) {
    await page.evaluate(`
      window.filtered = new Promise((resolve) => addEventListener("keydown", () => {
        const pressed = performance.now()
        const watching = new MutationObserver(() => {
          watching.disconnect()
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - pressed)))
        })
        watching.observe(document.querySelector("[role=listbox]"), { childList: true, subtree: true, characterData: true })
      }, { once: true, capture: true }))
      undefined
    `)
    await page.keyboard.press(digit)
    times.push(await page.evaluate<number>("window.filtered"))
  }
  return times
}

/** Milliseconds from the key press that decides until the page shows who decided. */
const decide = async (page: Page): Promise<number> => {
  await page.keyboard.press("j")
  // The key acts only once the arguments have been on the screen for a moment.
  await page.getByRole("button", { name: /^Approve/ }).click()
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

/** What a tab holds after its garbage was collected. */
const heldBy = async (page: Page) => {
  const client = await page.context().newCDPSession(page)
  await client.send("HeapProfiler.collectGarbage")
  await client.send("Performance.enable")
  const { metrics } = await client.send("Performance.getMetrics")
  await client.detach()
  const valueOf = (name: string) => metrics.find((one) => one.name === name)?.value ?? Number.NaN
  return {
    listeners: valueOf("JSEventListeners"),
    nodes: valueOf("Nodes"),
    megabytes: valueOf("JSHeapUsedSize") / 1e6
  }
}

/** Durations of the tasks of over 50 ms while `use` runs. */
const longTasks = async (page: Page, use: () => Promise<unknown>): Promise<ReadonlyArray<number>> => {
  await page.evaluate(`
    window.tasks = []
    window.watchedTasks = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)))
    watchedTasks.observe({ type: "longtask" })
  `)
  await use()
  const tasks: unknown = await page.evaluate(`new Promise((resolve) => setTimeout(() => {
    watchedTasks.disconnect()
    resolve(tasks)
  }))`)
  return Array.isArray(tasks) ? tasks.map(Number) : []
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
  out(`first visit after a start: ${veryFirst.usable.toFixed(0)} ms`)
  const visits = async (
    what: string,
    { path, script, selector, state }: { path: string; script: number; selector: string; state?: State }
  ) => {
    const all: Array<Visit> = []
    for (let round = 0; round < coldRounds; round++)
      all.push(await visit(browser, `${origin}/console${path}`, selector, state))
    out(
      line(
        `${what}, cold cache`,
        all.map(({ usable }) => usable),
        "ms"
      )
    )
    out(
      atMost(
        "  its script, compressed",
        all.map((one) => one.script),
        script,
        "KB"
      )
    )
  }
  await visits("sign-in page", { path: "", selector: "input[name=key]", script: 120 })
  await database.runPromise(seed)
  const state = await signIn(browser, origin, key)
  await visits("overview", { path: "/overview", selector: ".chart", script: 269, state })
  await visits(`${pending} approvals`, { path: "/approvals", selector: "[role=option]", script: 269, state })
  const context = await browser.newContext({ storageState: state })
  const page = await context.newPage()
  await page.goto(`${origin}/console/approvals`)
  await page.getByRole("button", { name: `Pending ${pending.toLocaleString("en")}` }).waitFor()
  await page.getByRole("button", { name: /^All/ }).click()
  const keys: Array<number> = []
  const tasks = await longTasks(page, async () => {
    for (const number of ["4711", "1234", "2", "99"]) keys.push(...(await filter(page, number)))
  })
  out(line(`key press in the filter of ${pending}`, keys, "ms"))
  out(`  the slowest of them: ${Math.max(...keys).toFixed(1)} ms`)
  out(
    `  tasks of over 50 ms: ${tasks.length}${tasks.length === 0 ? "" : `, the longest ${Math.max(...tasks).toFixed(0)} ms`}`
  )
  // Letters are shortcuts outside of the field.
  await page.getByRole("searchbox").first().fill("")
  await page.locator("[role=listbox]").focus()
  const frames = await scroll(page)
  out(
    `scrolling ${pending}: frame time p50 ${median(frames).toFixed(1)} ms, p99 ${quantile(frames, 0.99).toFixed(1)} ms, max ${Math.max(...frames).toFixed(1)} ms`
  )
  const decided: Array<number> = []
  for (let count = 0; count < decisions; count++) decided.push(await decide(page))
  out(line("decision to display", decided, "ms"))
  for (let count = decisions; count <= Math.max(...leakAfter); count++) {
    if (leakAfter.includes(count)) {
      const { listeners, megabytes, nodes } = await heldBy(page)
      out(
        `after ${count} decisions: ${listeners} listeners, ${nodes} nodes, ${megabytes.toFixed(1)} MB of heap`
      )
    }
    await decide(page)
  }
  const [load = 0] = loadavg()
  out(`load of the machine at the end: ${load.toFixed(1)} on ${cpus().length} processors`)
} finally {
  await browser.close()
  service.kill("SIGTERM")
  await ended
  await database.dispose()
  await store.dispose()
}
