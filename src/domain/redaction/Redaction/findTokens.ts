import type { TextRange } from "./TextRange.ts"

/** Formats without a distinctive prefix. `needs` is a rare substring that a text must contain before the format is searched. */
const forms: ReadonlyArray<{ readonly needs: string; readonly form: RegExp }> = [
  // Telegram: the bot's number, and 35 characters that begin with AA.
  { needs: ":AA", form: /(?<![0-9A-Za-z])[0-9]{8,10}:AA[0-9A-Za-z_-]{33}(?![0-9A-Za-z_-])/g },
  // Discord: the bot's number in base64, a timestamp, a code.
  {
    needs: ".",
    form: /(?<![0-9A-Za-z_-])[MNO][0-9A-Za-z_-]{23,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,40}(?![0-9A-Za-z_-])/g
  },
  // Azure: a client secret; a shared access signature; a storage account's key.
  { needs: "sig=", form: /(?<=[?&;]sig=)[0-9A-Za-z%+/=_-]{40,100}/g },
  { needs: "Q~", form: /(?<![0-9A-Za-z_~.-])[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.-]{31,34}/g },
  { needs: "==", form: /(?<![0-9A-Za-z+/])[0-9A-Za-z+/]{86}==/g },
  // Webhook URLs whose path is the secret.
  {
    needs: "hooks.slack.com/",
    form: /(?<=hooks\.slack\.com\/(?:services|workflows|triggers)\/)[0-9A-Za-z_/-]{30,}/g
  },
  {
    needs: "/api/webhooks/",
    form: /(?<=discord(?:app)?\.com\/api\/webhooks\/)[0-9]{15,20}\/[0-9A-Za-z_-]{50,}/g
  },
  {
    needs: "webhook.office.com/",
    form: /(?<=webhook\.office\.com\/webhookb2\/)[0-9a-f@-]{70,}[0-9A-Za-z/-]*/g
  },
  // Airtable, Terraform Cloud, MailChimp and similar services.
  { needs: "pat", form: /(?<![0-9A-Za-z])pat[0-9A-Za-z]{14}\.[0-9a-f]{64}(?![0-9a-f])/g },
  { needs: ".atlasv1.", form: /(?<![0-9A-Za-z])[0-9A-Za-z]{14}\.atlasv1\.[0-9A-Za-z_=-]{60,}/g },
  { needs: "-us", form: /(?<![0-9a-f])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9])/g }
]

/** Finds secrets of these formats. */
export const findTokens = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const { form, needs } of forms) {
    if (!text.includes(needs)) continue
    for (const match of text.matchAll(form))
      found.push({ start: match.index, end: match.index + match[0].length })
  }
  return found
}
