#!/bin/sh
exec test/t-album
