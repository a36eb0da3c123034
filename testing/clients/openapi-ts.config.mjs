export default {
  input: './generated/openapi.json',
  output: { path: './generated/hey-api' },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
