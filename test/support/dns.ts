import { Effect, type Scope } from "effect"
import { NetAddress } from "effect/net"
import * as Dgram from "node:dgram"

/**
 * A name server's response for a name: addresses of both families, an error, no response, invalid bytes, or a truncated
 * response, after which the client retries by TCP, where no server listens.
 */
export type Zone = ReadonlyArray<string> | "NXDOMAIN" | "SERVFAIL" | "silence" | "garbage" | "truncated"

/** A query as received. */
export interface Question {
  readonly name: string
  readonly type: "A" | "AAAA"
}

/** A name server on the loopback address. */
export interface NameServer {
  readonly address: NetAddress.InetAddress
  /** Every query so far, in order, including retries. */
  readonly questions: ReadonlyArray<Question>
}

const types = { 1: "A", 28: "AAAA" } as const
const isKnownType = (type: number): type is keyof typeof types => type in types

const headerBytes = 12
const rcodes = { NXDOMAIN: 3, SERVFAIL: 2 } as const

/** Name and type of a query's only question, and where it ends. Names in questions are never compressed. */
const readQuestion = (query: Buffer) => {
  const labels: Array<string> = []
  let offset = headerBytes
  for (let length = query.readUInt8(offset); length > 0; length = query.readUInt8(offset)) {
    labels.push(query.toString("latin1", offset + 1, offset + 1 + length))
    offset += 1 + length
  }
  const type = query.readUInt16BE(offset + 1)
  return { name: labels.join(".").toLowerCase(), type, end: offset + 5 }
}

const octets = (address: string): Uint8Array => {
  const ip = NetAddress.ipFromStringUnsafe(address)
  return Uint8Array.from(
    NetAddress.isIpv4Address(ip) ? NetAddress.ipv4ToOctets(ip) : NetAddress.ipv6ToOctets(ip)
  )
}

/** A resource record that points at the question's name, with a TTL of a day, which no client may rely on. */
const record = (type: number, data: Uint8Array): Buffer => {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc000 | headerBytes, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(86_400, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

const reply = (query: Buffer, end: number, rcode: number, records: ReadonlyArray<Buffer>): Buffer => {
  const head = Buffer.alloc(headerBytes)
  head.writeUInt16BE(query.readUInt16BE(0), 0)
  head.writeUInt16BE(0x8180 | rcode, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(records.length, 6)
  return Buffer.concat([head, query.subarray(headerBytes, end), ...records])
}

/**
 * Runs a name server until the scope closes. `zone` is called for each query with the number of earlier queries for the
 * same name and type, so a name can move between two lookups.
 */
export const nameServer = (
  zone: (question: Question, before: number) => Zone
): Effect.Effect<NameServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const questions: Array<Question> = []
    const asked = new Map<string, number>()
    const socket = yield* Effect.acquireRelease(
      Effect.callback<Dgram.Socket>((resume) => {
        const socket = Dgram.createSocket("udp4")
        socket.bind(0, "127.0.0.1", () => resume(Effect.succeed(socket)))
      }),
      (socket) => Effect.sync(() => socket.close())
    )
    socket.on("message", (query, from) => {
      const { name, type, end } = readQuestion(query)
      if (!isKnownType(type)) return
      const question: Question = { name, type: types[type] }
      const before = asked.get(`${name} ${question.type}`) ?? 0
      asked.set(`${name} ${question.type}`, before + 1)
      questions.push(question)
      const answer = zone(question, before)
      if (answer === "silence") return
      if (answer === "garbage") {
        // With the id of the query, so that it is taken for the response.
        const bytes = Buffer.alloc(40, 0xff)
        query.copy(bytes, 0, 0, 2)
        return socket.send(bytes, from.port, from.address)
      }
      if (answer === "truncated") {
        const response = reply(query, end, 0, [])
        response.writeUInt8(response.readUInt8(2) | 0x02, 2)
        return socket.send(response, from.port, from.address)
      }
      const records =
        typeof answer === "string"
          ? []
          : answer
              .map(octets)
              .filter((data) => data.length === (type === 1 ? 4 : 16))
              .map((data) => record(type, data))
      socket.send(
        reply(query, end, typeof answer === "string" ? rcodes[answer] : 0, records),
        from.port,
        from.address
      )
    })
    return {
      address: NetAddress.inetAddressFromIpStringUnsafe("127.0.0.1", socket.address().port),
      questions
    }
  })
