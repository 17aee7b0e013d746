/** Path of the console. */
export const CONSOLE_PATH = "/console"
