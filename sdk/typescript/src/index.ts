export { Client, type ClientOptions } from './client.js';
export { ApiError, ConnectionFailed, InvalidWebhook, TreelineError, UnexpectedResponse, type Problem } from './errors.js';
export type { NewItem, NewJob, RequestOptions } from './options.js';
export { verifyWebhook, type WebhookHeaders } from './webhooks.js';
export type * from './schema.js';
