#!/bin/sh
exec test/t-image
