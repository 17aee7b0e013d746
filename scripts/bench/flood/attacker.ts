/** A process that repeats one request on many connections until its input ends. It prints the number of responses per status at the end. */
import { Agent, request } from "node:http"
import type { Attack } from "./attacks.ts"

/** Connections that are kept busy. */
const CONNECTIONS = 40

let count = 0
const statuses = new Map<string, number>()

const sendOne = (port: number, key: string, agent: Agent, { body, method, path, ...attack }: Attack) =>
  new Promise<void>((resolve) => {
    const number = `${process.pid}-${count++}`
    const bearer = attack.key ?? key
    const note = (status: string) => {
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      resolve()
    }
    const sent = request(
      {
        agent,
        port,
        host: "127.0.0.1",
        method,
        path: path.replace("*", number),
        headers: {
          "content-type": "application/json",
          ...(bearer === "" ? {} : { authorization: `Bearer ${bearer}` })
        }
      },
      (response) => {
        response.resume()
        response.on("close", () => note(String(response.statusCode)))
      }
    )
    sent.on("error", () => note("error"))
    sent.end(body?.replace("*", number))
  })

/** Reads the attack from the first line of the input. */
const start = async (line: string): Promise<void> => {
  const { attack, key, port }: { attack: Attack; key: string; port: number } = JSON.parse(line)
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      // Until the process ends.
      for (;;) await sendOne(port, key, agent, attack)
    })
  )
}

let buffered = ""
process.stdin.setEncoding("utf8")
process.stdin.on("data", (chunk: string) => {
  if (buffered.includes("\n")) return
  buffered += chunk
  if (buffered.includes("\n")) void start(buffered)
})
process.stdin.on("end", () => {
  console.log([...statuses].map(([status, times]) => `${times} × ${status}`).join(", "))
  process.exit()
})
