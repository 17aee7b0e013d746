import { type Message, Model, type ModelStreamEvent } from "@strands-agents/sdk"

/** A call that the model asks for. */
interface ModelCall {
  readonly id: string
  readonly tool: string
  readonly arguments: object
}

/** A model that asks for the calls of one response after the other. Its place in the script is what the messages say. */
export class ScriptedModel extends Model {
  private readonly responses: ReadonlyArray<ReadonlyArray<ModelCall>>

  constructor(responses: ReadonlyArray<ReadonlyArray<ModelCall>>) {
    super()
    this.responses = responses
  }

  override updateConfig(): void {}

  override getConfig() {
    return {}
  }

  override async *stream(messages: Array<Message>): AsyncIterable<ModelStreamEvent> {
    const told = toldAbout(messages)
    const calls = this.responses.find((response) => response.some(({ id }) => !told.has(id)))
    yield { type: "modelMessageStartEvent", role: "assistant" }
    if (calls === undefined) {
      yield { type: "modelContentBlockStartEvent" }
      yield { type: "modelContentBlockDeltaEvent", delta: { type: "textDelta", text: "Done" } }
      yield { type: "modelContentBlockStopEvent" }
    }
    for (const { arguments: input, id, tool } of calls ?? []) {
      yield {
        type: "modelContentBlockStartEvent",
        start: { type: "toolUseStart", name: tool, toolUseId: id }
      }
      yield {
        type: "modelContentBlockDeltaEvent",
        delta: { type: "toolUseInputDelta", input: JSON.stringify(input) }
      }
      yield { type: "modelContentBlockStopEvent" }
    }
    yield { type: "modelMessageStopEvent", stopReason: calls === undefined ? "endTurn" : "toolUse" }
  }
}

/** What the model was told about each call. */
export const toldAbout = (messages: ReadonlyArray<Message>): Map<string, string> => {
  const told = new Map<string, string>()
  for (const block of messages.flatMap(({ content }) => content)) {
    if (block.type === "toolResultBlock") {
      told.set(block.toolUseId, JSON.stringify(block.content).replaceAll('\\"', '"'))
    }
  }
  return told
}
