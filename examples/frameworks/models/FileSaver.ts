import { MemorySaver } from "@langchain/langgraph"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { deserialize, serialize } from "node:v8"

/** In place of `PostgresSaver` or another checkpointer: keeps the checkpoints in a file. */
export class FileSaver extends MemorySaver {
  readonly #file: string

  constructor(file: string) {
    super()
    this.#file = file
    if (existsSync(file)) Object.assign(this, deserialize(readFileSync(file)))
  }

  /** The IDs of the saved threads. */
  threads(): ReadonlyArray<string> {
    return Object.keys(this.storage)
  }

  override async put(...saved: Parameters<MemorySaver["put"]>) {
    const config = await super.put(...saved)
    this.#save()
    return config
  }

  override async putWrites(...writes: Parameters<MemorySaver["putWrites"]>) {
    await super.putWrites(...writes)
    this.#save()
  }

  #save(): void {
    writeFileSync(`${this.#file}.new`, serialize({ storage: this.storage, writes: this.writes }))
    renameSync(`${this.#file}.new`, this.#file)
  }
}
