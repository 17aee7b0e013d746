import { type BaseLlmConnection, BaseLlm, type LlmRequest, type LlmResponse } from "@google/adk"

/** A call that the model asks for. */
interface ModelCall {
  readonly id: string
  readonly tool: string
  readonly arguments: object
}

/** A model that asks for the calls of one response after the other. Its place in the script is what the request says. */
export class ScriptedModel extends BaseLlm {
  private readonly responses: ReadonlyArray<ReadonlyArray<ModelCall>>
  /** The responses of tools that the model got, by the ID of the call. */
  readonly told = new Map<string, string>()

  constructor(responses: ReadonlyArray<ReadonlyArray<ModelCall>>) {
    super({ model: "scripted" })
    this.responses = responses
  }

  override async *generateContentAsync({ contents }: LlmRequest): AsyncGenerator<LlmResponse, void> {
    const parts = contents.flatMap(({ parts = [] }) => parts)
    const responded = parts.flatMap(({ functionResponse }) => functionResponse ?? [])
    for (const { id = "", response } of responded) {
      this.told.set(id, JSON.stringify(response).replaceAll('\\"', '"'))
    }
    const calls = this.responses.find((response) => response.some(({ id }) => !this.told.has(id)))
    yield {
      content: {
        role: "model",
        parts:
          calls === undefined
            ? [{ text: "Done" }]
            : calls.map((call) => ({
                functionCall: { id: call.id, name: call.tool, args: { ...call.arguments } }
              }))
      }
    }
  }

  override connect(): Promise<BaseLlmConnection> {
    throw new Error("This model has no live connection")
  }
}
