import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  type HeaderRefusal,
  checkCollectorHeaders,
  MAX_HEADER_CHARACTERS,
  MAX_HEADERS
} from "../../../src/domain/telemetry/CollectorHeaders.ts"

const refusals = (headers: ReadonlyArray<readonly [string, string]>): ReadonlyArray<HeaderRefusal> =>
  checkCollectorHeaders(headers).map(({ refusal }) => refusal)

const refusalsOfName = (name: string) => refusals([[name, "x"]])
const refusalsOfValue = (value: string) => refusals([["authorization", value]])

const words = (text: string) => text.trim().split(/\s+/)

describe("checkCollectorHeaders on a header's name", () => {
  it.each(
    words(`
      authorization Authorization x-api-key api-key x-honeycomb-team x-honeycomb-dataset dd-api-key dd-protocol
      signoz-ingestion-key lightstep-access-token uptrace-dsn x-scope-orgid x-sf-token stream-name x-axiom-dataset
      dash0-dataset x-sentry-auth x-otlp-api-key x-hyperdx-api-key hosting hostess contents secret section vial updated
      proxy x-svc b3x cookies accept from referer x-trace-key otel-key forwarded-by connection-id
      !#$%&'*+-.^_|~09azAZ \` a _ 0
    `)
  )("accepts %s", (name) => assert.deepStrictEqual(refusalsOfName(name), []))

  it.each([
    [
      "Transport",
      `host connection keep-alive te trailer transfer-encoding upgrade http2-settings alt-used max-forwards expect accept-encoding date via
       content-length content-type content-encoding content-md5 content- proxy-authorization proxy-connection proxy-
       sec-fetch-mode sec-websocket-key`
    ],
    ["Forwarding", "forwarded x-forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-real-ip"],
    [
      "TraceContext",
      `traceparent tracestate traceresponse baggage b3 x-b3-traceid x-b3-spanid x-b3-sampled x-b3-flags uber-trace-id
       uberctx-user jaeger-debug-id jaeger-baggage ot-tracer-traceid ot-baggage-user x-ot-span-context x-amzn-trace-id
       x-cloud-trace-context x-client-trace-id l5d-ctx-trace x-datadog-trace-id x-datadog-origin sentry-trace newrelic
       x-newrelic-id elastic-apm-traceparent x-dynatrace x-dynatrace-tags x-instana-t sw6 sw8 sw8-correlation
       pinpoint-traceid x-trace x-trace-options x-trace-options-signature request-id request-context correlation-context
       grpc-trace-bin grpc-tags-bin`
    ],
    ["Cookie", "cookie cookie2 set-cookie set-cookie2"],
    ["Own", "user-agent x-svc-signature x-svc-event-id x-svc-"],
    [
      "Prototype",
      `__proto__ constructor prototype toString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable
       toLocaleString __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__`
    ]
  ] as const)("refuses %s in upper and lower case", (refusal, list) => {
    for (const name of words(list)) {
      for (const spelt of [name, name.toUpperCase(), name.toLowerCase(), name.replace(/\b./g, upper)]) {
        assert.deepStrictEqual(refusalsOfName(spelt), [refusal], spelt)
      }
    }
  })

  it.each([
    "",
    " ",
    "a b",
    " a",
    "a ",
    "a\t",
    ":path",
    ":authority",
    "a:",
    "a\r\nb",
    "a\n",
    "\0",
    "a\0",
    "a(b)",
    "a,b",
    "a/b",
    "a;b",
    "a=b",
    "a?b",
    "a@b",
    "[a]",
    "{a}",
    "<a>",
    "a\\b",
    '"a"',
    "é",
    "ａuthorization",
    "a\u200b",
    "a\u007f"
  ])("refuses %j, which is not a token", (name) =>
    assert.deepStrictEqual(refusalsOfName(name), ["NotAToken"])
  )

  it("refuses a name of more than 256 characters", () => {
    assert.deepStrictEqual(refusalsOfName("x".repeat(256)), [])
    assert.deepStrictEqual(refusalsOfName("x".repeat(257)), ["NameTooLong"])
  })

  it("an invalid name is not repeated: it may be a whole header line with its secret", () => {
    const [fault] = checkCollectorHeaders([
      ["x-team", "a"],
      ["Authorization: Bearer s3cret", "x"]
    ])
    assert.deepInclude(fault, { pointer: "#/headers", refusal: "NotAToken" })
    assert.match(fault?.detail ?? "", /^Header 2 has an invalid name/)
  })

  it("a refused name that is known or of words has a pointer; one that may be a secret is not repeated", () => {
    for (const name of ["X-B3-TraceId", "HTTP2-Settings", "x-ot-span-context", "__proto__"]) {
      const [fault] = checkCollectorHeaders([[name, "x"]])
      assert.deepInclude(fault, { pointer: `#/headers/${name}` })
      assert.include(fault?.detail ?? "", `${name} `)
    }
    for (const secret of [
      "csk_4Zr8mWq2LxT0aBcD_x",
      "550e8400-e29b-41d4-a716-446655440000",
      "content-9f8e7d6c5b4a"
    ]) {
      const [fault] = checkCollectorHeaders([[secret, "\u00fc"]])
      assert.strictEqual(fault?.pointer, "#/headers")
      assert.match(fault?.detail ?? "", /^Header 1 /)
    }
  })

  it("refuses a name that is given twice, regardless of case", () => {
    assert.deepStrictEqual(
      refusals([
        ["X-Team", "a"],
        ["x-team", "b"],
        ["x-Team", "c"],
        ["x-team2", "d"]
      ]),
      ["Duplicate", "Duplicate"]
    )
  })
})

describe("checkCollectorHeaders on a header's value", () => {
  it.each(["x", "Bearer abc.def-_~+/==", "a b", "a\tb", "a \t b", '"quoted", ; = @ {}', "~", "!"])(
    "accepts %j",
    (value) => assert.deepStrictEqual(refusalsOfValue(value), [])
  )

  it.each([
    ["", "EmptyValue"],
    [" ", "OuterBlank"],
    [" a", "OuterBlank"],
    ["a ", "OuterBlank"],
    ["\ta", "OuterBlank"],
    ["a\t", "OuterBlank"],
    ["a\r\nx-evil: 1", "LineBreak"],
    ["a\nb", "LineBreak"],
    ["a\r", "LineBreak"],
    ["\n", "LineBreak"],
    ["a\0", "ValueCharacter"],
    ["a\u000bb", "ValueCharacter"],
    ["a\u007f", "ValueCharacter"],
    ["a\u0085b", "ValueCharacter"],
    ["a\u00a0", "ValueCharacter"],
    ["é", "ValueCharacter"],
    ["a\u2028b", "ValueCharacter"],
    ["a\u200bb", "ValueCharacter"],
    // Its low byte is a line feed, which a careless encoder sends.
    ["a\u010ab", "ValueCharacter"],
    ["😀", "ValueCharacter"],
    ["\ud800", "ValueCharacter"]
  ] as const)("refuses %j: %s", (value, refusal) => assert.deepStrictEqual(refusalsOfValue(value), [refusal]))

  it("no fault contains the value", () => {
    const [fault] = checkCollectorHeaders([["authorization", "Bearer s3cret\n"]])
    assert.notInclude(JSON.stringify(fault), "s3cret")
  })
})

describe("checkCollectorHeaders on all headers together", () => {
  const many = (count: number): ReadonlyArray<readonly [string, string]> =>
    Array.from({ length: count }, (_, index) => [`x-${index}`, "v"])

  it("allows at most ten headers", () => {
    assert.deepStrictEqual(refusals([]), [])
    assert.deepStrictEqual(refusals(many(MAX_HEADERS)), [])
    assert.deepStrictEqual(refusals(many(MAX_HEADERS + 1)), ["TooMany"])
  })

  it("allows at most 8 KiB, including names", () => {
    const full = MAX_HEADER_CHARACTERS - "x-a".length
    assert.deepStrictEqual(refusals([["x-a", "v".repeat(full)]]), [])
    assert.deepStrictEqual(refusals([["x-a", "v".repeat(full + 1)]]), ["TooLarge"])
    assert.deepStrictEqual(refusals([["n".repeat(MAX_HEADER_CHARACTERS), "v"]]), ["TooLarge"])
  })

  it("reports all faults, one per header", () => {
    assert.deepStrictEqual(
      refusals([
        ["host", "a\r\nb"],
        ["x-ok", "v"],
        ["cookie", ""],
        ["x-bad", ""]
      ]),
      ["Transport", "Cookie", "EmptyValue"]
    )
  })

  it("accepted headers pass unchanged through the platform's Headers", () => {
    let accepted = 0
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(textOf("abX-_~9:\n "), textOf("abc~=/+ \t\r\n\0é")), {
          selector: ([name]) => name,
          maxLength: 3
        }),
        (headers) => {
          if (checkCollectorHeaders(headers).length > 0) return
          accepted++
          const taken = new Headers(headers.map(([name, value]) => [name, value]))
          assert.lengthOf([...taken], headers.length)
          for (const [name, value] of headers) assert.strictEqual(taken.get(name), value)
        }
      ),
      { numRuns: 5_000 }
    )
    assert.isAbove(accepted, 500)
  })
})

/** Short texts of a few characters, so that many are accepted and many are refused. */
const textOf = (characters: string) =>
  fc.string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 4 })

const upper = (letter: string) => letter.toUpperCase()
