/**
 * Attributes of this service's own spans in the names that a tool reads, beside the attributes of `SpanConventions`: the kind of the span,
 * its input and its output, which tools show. Calls to models and executions of tools follow the GenAI conventions, which all of them read.
 */
import type { Attributes, Span } from "./Span.ts"
import type { ScoreFormat } from "./TelemetryDestination.ts"

/** OpenInference's kinds, by the first word of a span's name. */
const kinds: ReadonlyMap<string, string> = new Map([
  ["svc.run", "CHAIN"],
  ["svc.comparison", "CHAIN"],
  ["svc.step", "GUARDRAIL"],
  ["svc.approval", "GUARDRAIL"],
  ["svc.feedback", "EVALUATOR"]
])

/** The names of a span's input and output. */
const names: Readonly<Partial<Record<ScoreFormat, readonly [input: string, output: string]>>> = {
  phoenix: ["input.value", "output.value"],
  langfuse: ["langfuse.observation.input", "langfuse.observation.output"],
  braintrust: ["braintrust.input_json", "braintrust.output_json"]
}

/** Returns the span with the attributes that the tool of these scores reads. */
export const withToolAttributes = (span: Span, scores: ScoreFormat): Span => {
  const [first = ""] = span.name.split(" ", 1)
  const kind = scores === "phoenix" ? kinds.get(first) : undefined
  const {
    "svc.run.answer": output,
    "svc.run.input": runInput,
    "svc.step.arguments": stepInput
  } = span.attributes
  const input = runInput ?? stepInput
  const [inputName, outputName] = names[scores] ?? []
  // Cut JSON is none.
  const isCut = span.attributes["svc.content.truncated"] === true && scores === "braintrust"
  const added: Attributes = {
    "openinference.span.kind": kind,
    ...(inputName === undefined || isCut ? {} : { [inputName]: input, [outputName ?? ""]: output })
  }
  return { ...span, attributes: { ...span.attributes, ...added } }
}
