/** Formats generated text as `npm run format` formats its file. */
import { format as formatText } from "oxfmt"
import config from "../oxfmt.config.ts"

export const format = async (file: string, text: string): Promise<string> => {
  const { code, errors } = await formatText(file, text, { ...config, ignorePatterns: [] })
  const [error] = errors
  if (error !== undefined) throw new Error(`${file}: ${error.message}`)
  return code
}
